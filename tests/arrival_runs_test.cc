// Calls that mails make, as multicasts do: by a maker of runs that knows just enough for it.

#include "engine/execute/arrival_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <list>

#include "engine/base/clock.h"
#include "tests/api_job.h"
#include "tests/exchange.h"

namespace ibcoll {
namespace {

using testing::Exchange;
using testing::job_of;
using testing::JobOptions;
using testing::kPoison;
using testing::pattern;
using testing::RankView;
using testing::run_job;
using testing::SharedFlags;

/// A bcast of rank 0 to all, which a mail makes on the others.
struct MadeRun {
  explicit MadeRun(const Shape& shape) : group(shape) {}
  GroupState group;
  Completion completion;
  std::vector<std::byte> data;
  uint64_t available = 0;
  bool entered = true;
};

/// Makes the runs that mails tell of, in which the block's bytes stand in the head.
class Runs final : public ArrivalRuns {
 public:
  explicit Runs(Context& context) : context_(context) { context.executor().serve(this); }
  ~Runs() override { context_.executor().serve(nullptr); }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  void take(std::span<const std::byte> mail, bool local) override {
    MailHeader header;
    std::memcpy(&header, mail.data(), sizeof header);
    if (local != context_.shape().same_server(header.from, context_.rank())) wrong = "wrong side";
    make(header.group, header.block_bytes);
    if (on_take) on_take();
  }
  bool advance() override {
    bool moved = false;
    for (MadeRun& run : runs) {
      if (!run.entered || !run.completion.done) continue;
      context_.executor().leave(run.group);
      run.entered = false;
      moved = true;
      if (on_finish) on_finish();
    }
    return moved;
  }
  bool busy() const override {
    return std::any_of(runs.begin(), runs.end(), [](const MadeRun& run) { return run.entered; });
  }
  void lost(Rank rank, const Failure& why) override {
    lost_ranks.push_back(rank);
    death = why.what;
    for (MadeRun& run : runs) {
      if (run.entered) run.group.lost.push_back(rank);
    }
    if (on_lost) on_lost();
  }

  /// Of rank 0 the bytes are `available` as the caller says.
  MadeRun& make(uint64_t number, size_t bytes, bool fills = false) {
    MadeRun& run = runs.emplace_back(context_.shape());
    run.group.key = kByArrivalKey | number;
    run.group.by_arrival = true;
    run.group.me = context_.rank();
    for (Rank rank = 0; rank < context_.size(); ++rank) run.group.to_job.push_back(rank);
    context_.executor().enter(run.group);
    CallOptions options;
    options.algorithm = algorithm;
    options.pieces = 4;
    const auto plan =
        context_.world().call_plan(Collective::kBcast, static_cast<int64_t>(bytes), 0, options);
    if (!plan) {
      wrong = plan.error().message;
      return run;
    }
    Binding binding;
    const uint32_t cut = (*plan)->program->cut;
    binding.block_bytes = cut_slot_bytes(bytes, cut);
    if (cut > 1) binding.limit = bytes;
    binding.pieces = (*plan)->pieces;
    run.data.assign(bytes, kPoison);
    if (context_.rank() == 0 && !fills) fill(run, number);
    if (fills) binding.available = &run.available;
    binding[context_.rank() == 0 ? Buffer::kSend : Buffer::kRecv].base = run.data.data();
    programs_.push_back((*plan)->program);
    const Status posted =
        context_.executor().post(run.group, *programs_.back(), binding, run.completion);
    if (!posted) wrong = posted.error().message;
    return run;
  }
  static void fill(MadeRun& run, uint64_t number) {
    for (size_t i = 0; i < run.data.size(); ++i)
      run.data[i] = pattern(0, 0, i, static_cast<uint32_t>(number & 0xff));
  }
  static bool is_right(const MadeRun& run) {
    for (size_t i = 0; i < run.data.size(); ++i) {
      if (run.data[i] != pattern(0, 0, i, static_cast<uint32_t>(run.group.key & 0xff)))
        return false;
    }
    return true;
  }
  /// Tells all others of it.
  void tell(uint64_t number, size_t bytes) {
    MailHeader header{};
    header.group = kByArrivalKey | number;
    header.from = context_.rank();
    header.kind = MailKind::kMulticast;
    header.block_bytes = bytes;
    const auto mail = std::as_bytes(std::span(&header, 1));
    for (Rank rank = 0; rank < context_.size(); ++rank) {
      if (rank == context_.rank()) continue;
      const bool local = context_.shape().same_server(rank, context_.rank());
      while (!(local ? context_.local().offer_mail(rank, mail)
                     : context_.network()->mail(rank, mail, NetworkTransport::kUncounted)))
        context_.executor().progress();
    }
    context_.local().poll();
    if (context_.network() != nullptr) context_.network()->flush();
  }

  std::list<MadeRun> runs;
  std::vector<Rank> lost_ranks;
  std::string death, wrong;
  const char* algorithm = "linear";
  std::function<void()> on_take, on_finish, on_lost;

 private:
  Context& context_;
  std::vector<std::shared_ptr<const RankProgram>> programs_;
};

/// Complains of what is wrong with all runs so far.
void check(const RankView& rank, const Runs& runs, size_t number) {
  if (!runs.wrong.empty()) rank.complain(runs.wrong);
  if (runs.runs.size() != number) rank.complain(fmt::format("{} runs", runs.runs.size()));
  for (const MadeRun& run : runs.runs) {
    if (run.entered) rank.complain("a run has not ended");
    if (run.completion.error != nullptr) rank.complain(run.completion.error->message);
    if (!Runs::is_right(run)) rank.complain("wrong data");
  }
}

void progress_until(const RankView& rank, const std::function<bool()>& over) {
  while (!over()) {
    if (!rank.good(rank.context.executor().progress_of_all(), "progress")) return;
  }
}

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
              if (!rank.good(rank.context.use_threads(false, true), "threads")) return;
              flags.raise(0);
              // No call is made here, nor is one under way.
              flags.await(1, rank.context.size() - 1);
              const EntryGuard::Entry entry(rank.context.guard());
              check(rank, runs, 1);
              rank.context.executor().serve(nullptr);
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
              const auto descriptor = rank.context.descriptor();
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

/// Each way to wait: a thread alone, several that take turns, with a thread that makes progress.
class PatientWaits : public ::testing::TestWithParam<std::pair<bool, bool>> {
 protected:
  std::string run(JobOptions job, const std::function<void(const RankView&)>& body,
                  int* status = nullptr) {
    const auto [several, progress_thread] = GetParam();
    return run_job(
        job,
        [&](const RankView& rank) {
          rank.good(rank.context.use_threads(several, progress_thread), "threads");
          body(rank);
          rank.context.stop_threads();
        },
        status);
  }
};

TEST_P(PatientWaits, EndInTimeAndKnowNoDeadline) {
  JobOptions job = job_of({2});
  job.context.deadline_ns = 50'000'000;
  job.context.late_ns = 20'000'000;
  ::testing::internal::CaptureStderr();
  const std::string complaints = run(job, [](const RankView& rank) {
    const EntryGuard::Entry entry(rank.context.guard());
    Completion never;
    const int64_t until = now_ns() + 300'000'000;
    if (!rank.good(rank.context.executor().wait(never, until), "wait")) return;
    if (never.done) rank.complain("it is done");
    if (now_ns() < until) rank.complain("it ended before its time");
  });
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_P(PatientWaits, EndWhenSomethingArrives) {
  EXPECT_EQ(run(job_of({2}),
                [](const RankView& rank) {
                  const EntryGuard::Entry entry(rank.context.guard());
                  Runs runs(rank.context);
                  Completion finished;
                  runs.on_finish = [&] { finished.done = true; };
                  if (rank.context.rank() == 0) {
                    usleep(100'000);
                    runs.make(1, 100'000);
                    runs.tell(1, 100'000);
                  }
                  if (!rank.good(rank.context.executor().wait(finished, 0), "wait")) return;
                  check(rank, runs, 1);
                }),
            "");
}

TEST_P(PatientWaits, LearnOfDeathsThatTheJobSurvives) {
  int status = 0;
  testing::Complaints complaints(3);  // but for those of leaving after a death
  run(
      job_of({3}),
      [&](const RankView& view) {
        const RankView rank{view.context, complaints};
        const EntryGuard::Entry entry(rank.context.guard());
        Runs runs(rank.context);
        Completion told;
        runs.on_lost = [&] { told.done = true; };
        if (rank.context.rank() == 0) {
          // Rank 1 takes part in it, rank 2 does not.
          runs.make(1, 1'000'000);
          runs.tell(1, 1'000'000);
        }
        if (rank.context.rank() == 2) {
          usleep(100'000);
          raise(SIGKILL);
        }
        if (!rank.good(rank.context.executor().wait(told, 0), "wait")) return;
        if (runs.lost_ranks != std::vector<Rank>{2}) rank.complain("another one died");
        if (runs.death.find("rank 2") == std::string::npos) rank.complain(runs.death);
        // The dead rank's part counts as taken.
        progress_until(rank, [&] { return !runs.busy(); });
        check(rank, runs, 1);
        complaints.add(rank.context.rank(), "as it should be");
      },
      &status);
  EXPECT_EQ(complaints.all(), "rank 0: as it should be\nrank 1: as it should be\n");
}

INSTANTIATE_TEST_SUITE_P(Threads, PatientWaits,
                         ::testing::Values(std::pair{false, false}, std::pair{true, false},
                                           std::pair{false, true}, std::pair{true, true}));

}  // namespace
}  // namespace ibcoll
