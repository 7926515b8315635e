// What becomes of calls whose ranks disagree, die or are late.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <utility>

#include "engine/bootstrap/launch.h"
#include "tests/algorithm_lists.h"
#include "tests/api_job.h"
#include "tests/command.h"
#include "tests/exchange.h"
#include "tests/forwarding_bootstrap.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using testing::Exchange;
using testing::job_of;
using testing::JobOptions;
using testing::one_call;
using testing::RankView;
using testing::SharedFlags;
using testing::unplanned_algorithms_of;
using testing_tools::files_in_dev_shm;
/// Every rank must have got one error of that kind that has `text` in it.
void expect_everywhere(const JobOptions& job, ErrorCode code, const std::string& text,
                       const std::function<Status(const RankView&)>& body, Rank except = -1) {
  Complaints errors(job.shape.ranks());
  int status = 0;
  const std::string other = run_job(
      job,
      [&](const RankView& rank) {
        const Status result = body(rank);
        if (!result)
          errors.add(
              rank.context.rank(),
              fmt::format("{}|{}", static_cast<int>(result.error().code), result.error().message));
      },
      &status);
  for (Rank rank = 0; rank < job.shape.ranks(); ++rank) {
    if (rank == except) continue;
    EXPECT_EQ(errors.of(rank).substr(0, 2), fmt::format("{}|", static_cast<int>(code)))
        << "rank " << rank << ": " << errors.of(rank) << other;
    EXPECT_NE(errors.of(rank).find(text), std::string::npos)
        << "rank " << rank << ": " << errors.of(rank);
  }
}

/// A call twice: ranks that were not told in the first call are in the second.
Status two_calls(const RankView& rank, size_t bytes, std::string_view algorithm) {
  IBCOLL_TRY(one_call(rank.context.world(), bytes, algorithm));
  return one_call(rank.context.world(), 64, "linear");
}

TEST(Disagreement, OfSizesIsAnErrorOnEveryRank) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}, {2, 1}}) {
    for (const Algorithm* const algorithm : unplanned_algorithms_of(Collective::kAlltoall)) {
      SCOPED_TRACE(algorithm->name);
      expect_everywhere(job_of(layout), ErrorCode::kMismatch, "bytes", [&](const RankView& rank) {
        return two_calls(rank, rank.context.rank() == 1 ? 4096 : 100, algorithm->name);
      });
    }
  }
}

TEST(Disagreement, OfAlgorithmsIsAnErrorOnEveryRank) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}}) {
    expect_everywhere(job_of(layout), ErrorCode::kMismatch, "runs algorithm",
                      [](const RankView& rank) {
                        return two_calls(rank, 100, rank.context.rank() == 2 ? "ring" : "linear");
                      });
  }
}

TEST(Disagreement, OfCountsIsAnErrorOnEveryRank) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}, {2, 1}}) {
    for (const Algorithm* const algorithm : unplanned_algorithms_of(Collective::kAlltoallv)) {
      SCOPED_TRACE(algorithm->name);
      expect_everywhere(
          job_of(layout), ErrorCode::kMismatch, "bytes", [&](const RankView& rank) -> Status {
            std::vector<int64_t> counts(3, 10), wrong(3, 10), places{0, 100, 200};
            if (rank.context.rank() == 0) wrong[2] = 11;
            std::vector<std::byte> send(300), recv(300);
            CallArguments arguments;
            arguments.collective = Collective::kAlltoallv;
            arguments.send = send.data();
            arguments.recv = recv.data();
            arguments.send_counts = counts.data();
            arguments.recv_counts = wrong.data();
            arguments.send_displacements = arguments.recv_displacements = places.data();
            arguments.options.algorithm = algorithm->name;
            Call call(rank.context.world());
            IBCOLL_TRY(call.prepare(arguments));
            IBCOLL_TRY(call.start());
            IBCOLL_TRY(call.wait());
            return one_call(rank.context.world(), 64, "linear");
          });
    }
  }
}

/// A rank's view of its job that, once told to, lets the job fail before it says whether it has.
class LateNews final : public ForwardingBootstrap {
 public:
  using ForwardingBootstrap::ForwardingBootstrap;
  /// From now on the first to ask raises `asked` and hears of the failure that comes then.
  void be_late(std::atomic<bool>& asked) { asked_ = &asked; }

  std::optional<Failure> failure() const override {
    if (std::atomic<bool>* const asked = std::exchange(asked_, nullptr)) {
      asked->store(true);
      while (!ForwardingBootstrap::failure()) usleep(1000);
    }
    return ForwardingBootstrap::failure();
  }

 private:
  mutable std::atomic<bool>* asked_ = nullptr;
};

/// Rank 2 has looked for the data of a broadcast in vain when the others send it, go on and
/// disagree on another call; then it looks whether the job has failed.
TEST(Disagreement, EndsNoCallThatTheOthersHaveEndedWell) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {2, 1}}) {
    std::atomic<bool> asked = false;
    Complaints complaints(3);
    const auto status = launch_threads(3, [&](Bootstrap& bootstrap) {
      LateNews news(bootstrap);
      ContextOptions options;
      options.shape = Shape::from_layout(layout, Placement::kBlock).value();
      const auto context = Context::create(news, options);
      if (!context) return 1;
      const RankView rank{**context, complaints};
      std::array<std::byte, 8> data{};
      CallArguments arguments;
      arguments.collective = Collective::kBcast;
      arguments.root = 0;
      arguments.send = arguments.recv = data.data();
      arguments.block_bytes = data.size();
      arguments.options.algorithm = "linear";
      if (bootstrap.rank() == 0) data.fill(std::byte{7});
      if (bootstrap.rank() == 2) news.be_late(asked);
      while (bootstrap.rank() != 2 && !asked) usleep(1000);
      Call call(rank.context.world());
      if (rank.good(call.prepare(arguments), "prepare") && rank.good(call.start(), "start"))
        rank.good(call.wait(), "bcast");
      if (data.back() != std::byte{7}) rank.complain("data have not come");
      if (bootstrap.rank() != 2 &&
          one_call(rank.context.world(), bootstrap.rank() == 0 ? 100 : 200, "linear"))
        rank.complain("a call of different sizes has ended well");
      (void)rank.context.close();
      return 0;
    });
    EXPECT_TRUE(status.has_value());
    EXPECT_EQ(complaints.all(), "") << layout.size() << " servers";
  }
}

/// No rank of it has failed or stays away, so that no call waits for long; on a busy machine, where
/// whoever waits is seldom run, not even long enough to look at the clock.
void expect_end_of_all(const std::vector<int>& layout, useconds_t pause_us) {
  Complaints complaints(3);
  const auto status = launch_threads(3, [&](Bootstrap& bootstrap) {
    ContextOptions options;
    options.shape = Shape::from_layout(layout, Placement::kBlock).value();
    const auto context = Context::create(bootstrap, options);
    if (!context) return 1;
    const int64_t until = now_ns() + 20'000'000'000;
    Status made;
    for (int calls = 0; made && now_ns() < until; ++calls) {
      if (bootstrap.rank() == 0 && calls == 5)
        bootstrap.abort({-1, ErrorCode::kPeerFailed, "the launcher has ended"});
      if (pause_us > 0 && bootstrap.rank() == calls % 3) usleep(pause_us);
      made = one_call((*context)->world(), 100, "linear");
    }
    if (made) complaints.add(bootstrap.rank(), "all calls have ended well");
    (void)(*context)->close();
    return 0;
  });
  EXPECT_TRUE(status.has_value());
  EXPECT_EQ(complaints.all(), "") << layout.size() << " servers";
}

TEST(JobEnd, EndsCallsThatAllRanksGoOnMaking) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {2, 1}}) {
    for (const useconds_t pause_us : {0, 4000}) expect_end_of_all(layout, pause_us);
  }
}

TEST(Death, OfAnyRankAtAnyTimeIsOneErrorOnEverySurvivor) {
  const auto before = files_in_dev_shm();
  for (const std::vector<int>& layout : {std::vector<int>{4}, {2, 1, 1}}) {
    for (uint32_t trial = 0; trial < 6; ++trial) {
      const Rank victim = static_cast<Rank>(trial % 4);
      const auto begin = std::chrono::steady_clock::now();
      expect_everywhere(
          job_of(layout), ErrorCode::kPeerFailed, fmt::format("rank {}", victim),
          [&](const RankView& rank) -> Status {
            for (uint32_t i = 0;; ++i) {
              if (rank.context.rank() == victim && i == trial * 37) {
                // Dies in the middle of a call: some of its data is out, some is not.
                Exchange exchange(rank.context.world(), i % 2 == 0 ? 30000 : 100, i);
                IBCOLL_TRY(exchange.post());
                kill(getpid(), SIGKILL);
              }
              IBCOLL_TRY(one_call(rank.context.world(), i % 2 == 0 ? 30000 : 100, {}));
            }
          },
          victim);
      const auto took = std::chrono::steady_clock::now() - begin;
      EXPECT_LT(took, std::chrono::seconds(30)) << "survivors must not hang";
    }
  }
  EXPECT_EQ(files_in_dev_shm(), before);
}

/// The victim is killed from outside, `after` its context is there: in a call, between calls, in
/// memory that is half written.
void kill_at_some_time(const std::vector<int>& layout, Rank victim, std::chrono::microseconds after,
                       uint32_t trial) {
  SCOPED_TRACE(fmt::format("trial {}: rank {} killed after {} us", trial, victim, after.count()));
  expect_everywhere(
      job_of(layout), ErrorCode::kPeerFailed, fmt::format("rank {}", victim),
      [&](const RankView& rank) -> Status {
        if (rank.context.rank() == victim) {
          sigevent killed{};
          killed.sigev_notify = SIGEV_SIGNAL;
          killed.sigev_signo = SIGKILL;
          timer_t timer;
          itimerspec when{};
          when.it_value.tv_nsec = after.count() * 1000;
          if (timer_create(CLOCK_MONOTONIC, &killed, &timer) != 0 ||
              timer_settime(timer, 0, &when, nullptr) != 0) {
            return fail_errno("no timer");
          }
        }
        constexpr std::array<size_t, 4> kSizes{100, 30000, 0, 200000};
        for (uint32_t i = 0;; ++i) {
          IBCOLL_TRY(one_call(rank.context.world(), kSizes[(i + trial) % kSizes.size()], {}));
        }
      },
      victim);
}

void kill_at_random(uint32_t trials, uint32_t seed) {
  const auto before = files_in_dev_shm();
  std::mt19937 random(seed);
  for (uint32_t trial = 0; trial < trials; ++trial) {
    const std::vector<int> layout =
        trial % 2 == 0 ? std::vector<int>{4} : std::vector<int>{2, 1, 1};
    const auto begin = std::chrono::steady_clock::now();
    kill_at_some_time(layout, static_cast<Rank>(random() % 4),
                      std::chrono::microseconds(1 + random() % 20000), trial);
    // 2 s are promised; the rest is for starting four processes on a machine that stands still.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  }
  EXPECT_EQ(files_in_dev_shm(), before);
}

TEST(Death, AtRandomMomentsIsOneErrorOnEverySurvivor) { kill_at_random(12, 1); }

TEST(DeathFull, AtRandomMomentsIsOneErrorOnEverySurvivor) { kill_at_random(300, 2); }

TEST(Lateness, IsNoErrorUnlessADeadlineIsSet) {
  JobOptions job = job_of({2, 1});
  job.context.late_ns = 50'000'000;
  EXPECT_EQ(run_job(job,
                    [](const RankView& rank) {
                      if (rank.context.rank() == 1) usleep(300'000);
                      rank.good(one_call(rank.context.world(), 5000, {}), "call");
                    }),
            "");
  job.context.deadline_ns = 100'000'000;
  SharedFlags& have_ended = SharedFlags::create();
  expect_everywhere(
      job, ErrorCode::kDeadline, "IBCOLL_DEADLINE",
      [&](const RankView& rank) -> Status {
        if (rank.context.rank() == 1) have_ended.await(0, 2, 20'000);
        const Status done = one_call(rank.context.world(), 5000, {});
        have_ended.raise(0);
        return done;
      },
      1);
}

}  // namespace
}  // namespace ibcoll
