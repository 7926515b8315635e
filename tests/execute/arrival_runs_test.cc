// Calls that mails make, as multicasts do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>

#include "tests/execute/made_runs.h"

namespace ibcoll {
namespace {

using testing::check;
using testing::Exchange;
using testing::job_of;
using testing::JobOptions;
using testing::MadeRun;
using testing::progress_until;
using testing::RankView;
using testing::run_job;
using testing::Runs;
using testing::SharedFlags;

class ArrivalRunsTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  std::string run(const std::function<void(const RankView&)>& body) {
    JobOptions job = job_of(GetParam());
    job.context.deadline_ns = 20'000'000'000;  // fails instead of hanging
    return run_job(job, body);
  }
};

TEST_P(ArrivalRunsTest, MailsMakeCallsOnRanksThatDoNotAskForThem) {
  EXPECT_EQ(run([](const RankView& rank) {
              Runs runs(rank.context);
              constexpr size_t kRuns = 40;
              const size_t sizes[] = {0, 8, 100'000};
              for (uint64_t i = 0; i < kRuns && rank.context.rank() == 0; ++i) {
                // Data may be there before the mail is.
                if (i % 2 == 0) runs.tell(i, sizes[i % 3]);
                runs.make(i, sizes[i % 3]);
                if (i % 2 == 1) runs.tell(i, sizes[i % 3]);
              }
              progress_until(rank, [&] { return runs.runs.size() == kRuns && !runs.busy(); });
              check(rank, runs, kRuns);
              if (rank.context.executor().has_calls()) rank.complain("something is left");
            }),
            "");
}

TEST_P(ArrivalRunsTest, RunsNotMadeYetAreNoDisagreement) {
  EXPECT_EQ(
      run([](const RankView& rank) {
        Runs runs(rank.context);
        // Long enough under way for ranks to ask each other what they mean.
        if (rank.context.rank() == 0) runs.make(3, 20'000);
        for (uint32_t i = 0; i < 3; ++i) {
          if (rank.context.rank() == 1) usleep(400'000);
          Exchange exchange(rank.context.world(), 100, i);
          if (!rank.good(exchange.post(), "post") || !rank.good(exchange.call().wait(), "wait"))
            return;
        }
        if (!rank.good(rank.context.executor().check_nothing_is_left(), "check")) return;
        if (rank.context.rank() == 0) runs.tell(3, 20'000);
        progress_until(rank, [&] { return runs.runs.size() == 1 && !runs.busy(); });
        check(rank, runs, 1);
      }),
      "");
}

TEST_P(ArrivalRunsTest, RecordsAreOfTheProgramsCalls) {
  EXPECT_EQ(run([](const RankView& rank) {
              Runs runs(rank.context);
              CallRecord record;
              rank.context.executor().record_into(&record);
              Exchange exchange(rank.context.world(), 1000, 1);
              if (!rank.good(exchange.post(), "post")) return;
              if (rank.context.rank() == 0) {
                runs.tell(5, 50'000);
                runs.make(5, 50'000);
              }
              progress_until(rank, [&] { return runs.runs.size() == 1 && !runs.busy(); });
              rank.good(exchange.call().wait(), "wait");
              rank.context.executor().record_into(nullptr);
              check(rank, runs, 1);
              if (record.program == nullptr || record.program->collective != Collective::kAlltoall)
                rank.complain("the record is of another call");
            }),
            "");
}

TEST_P(ArrivalRunsTest, DataAreSentAsTheyCome) {
  for (const char* algorithm : {"linear", "chain", "scatter_ring"}) {
    EXPECT_EQ(run([algorithm](const RankView& rank) {
                constexpr size_t kBytes = 400'000;
                Runs runs(rank.context);
                runs.algorithm = algorithm;
                if (rank.context.rank() != 0) {
                  progress_until(rank, [&] { return runs.runs.size() == 1 && !runs.busy(); });
                  return check(rank, runs, 1);
                }
                runs.tell(7, kBytes);
                MadeRun& run = runs.make(7, kBytes, true);
                // What is not there yet is poison: nobody may get it.
                for (size_t there = 0; there < kBytes; there += 50'000) {
                  for (int round = 0; round < 500; ++round) rank.context.executor().progress();
                  if (run.completion.done) rank.complain("it sent what had not come");
                  MadeRun whole(rank.context.shape());
                  whole.data.resize(kBytes);
                  Runs::fill(whole, 7);
                  std::copy_n(whole.data.begin() + static_cast<ptrdiff_t>(there), 50'000,
                              run.data.begin() + static_cast<ptrdiff_t>(there));
                  run.available = there + 50'000;
                }
                progress_until(rank, [&] { return !runs.busy(); });
                check(rank, runs, 1);
              }),
              "")
        << algorithm;
  }
}

TEST_P(ArrivalRunsTest, TheProgressThreadListens) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(run([&](const RankView& rank) {
              Runs runs(rank.context);
              if (rank.context.rank() == 0) {
                flags.await(0, rank.context.size() - 1);
                usleep(100'000);  // they sleep
                runs.make(5, 50'000);
                runs.tell(5, 50'000);
                progress_until(rank, [&] { return !runs.busy(); });
                check(rank, runs, 1);
                flags.await(1, rank.context.size() - 1);
                return;
              }
              runs.on_finish = [&] { flags.raise(1); };
              if (!rank.good(rank.context.threads().use(false, true), "threads")) return;
              flags.raise(0);
              // No call is made here, nor is one under way.
              flags.await(1, rank.context.size() - 1);
              const EntryGuard::Entry entry(rank.context.threads().guard());
              check(rank, runs, 1);
              runs.leave();
            }),
            "");
}

TEST_P(ArrivalRunsTest, TheDescriptorListens) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(run([&](const RankView& rank) {
              Runs runs(rank.context);
              if (rank.context.rank() == 0) {
                flags.await(0, rank.context.size() - 1);
                runs.make(5, 50'000);
                runs.tell(5, 50'000);
                progress_until(rank, [&] { return !runs.busy(); });
                return;
              }
              const auto descriptor = rank.context.threads().descriptor();
              if (!rank.good(descriptor, "descriptor")) return;
              bool told = false;
              while (runs.runs.empty() || runs.busy()) {
                const auto armed = rank.context.executor().arm(**descriptor);
                if (!rank.good(armed, "arm")) return;
                if (!*armed) continue;
                if (!told) flags.raise(0);
                told = true;
                pollfd readable{(*descriptor)->fd(), POLLIN, 0};
                if (poll(&readable, 1, 20'000) != 1) return rank.complain("nothing woke it");
              }
              check(rank, runs, 1);
            }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, ArrivalRunsTest,
                         ::testing::Values(std::vector{3}, std::vector{2, 1},
                                           std::vector{1, 1, 1}));

}  // namespace
}  // namespace ibcoll
