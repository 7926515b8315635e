// Jobs of processes that a launcher has started, on one machine and on several pretended ones,
// which know each other by TCP only.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "engine/bootstrap/joined_job.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using Clock = std::chrono::steady_clock;

/// What the launcher of these tests passes on.
struct Blackboard {
  std::atomic<int> written;
  char text[ProcessManager::kMaxText + 1];
};

class TestManager final : public ProcessManager {
 public:
  TestManager(Blackboard& board, Rank rank, int size) : board_(board), rank_(rank), size_(size) {}
  std::string name() const override { return "test"; }
  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<std::string> broadcast(const std::string& text) override {
    if (rank_ == 0) {
      text.copy(board_.text, ProcessManager::kMaxText);
      board_.written.store(1);
    }
    while (board_.written.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::string(board_.text);
  }

 private:
  Blackboard& board_;
  const Rank rank_;
  const int size_;
};

/// Runs `main` in one process a rank; rank r is on machine machines[r], -1: never comes. Gives the
/// complaints; a process that a signal ends complains unless it is the one expected to.
std::string run_joined(const std::vector<int>& machines,
                       const std::function<std::string(Bootstrap&)>& main, Rank to_die = -1,
                       int limit_s = 20) {
  const int ranks = static_cast<int>(machines.size());
  Complaints complaints(ranks);
  void* memory =
      mmap(nullptr, sizeof(Blackboard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* board = new (memory) Blackboard{};
  std::vector<pid_t> processes;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const pid_t process = machines[rank] < 0 ? 0 : fork();
    if (process == 0 && machines[rank] >= 0) {
      alarm(30);
      JoinOptions options;
      options.machine = std::to_string(machines[rank]);
      options.limit_s = limit_s;
      auto job = join_through(std::make_unique<TestManager>(*board, rank, ranks), options);
      complaints.add(rank, job ? main(**job) : "not joined: " + job.error().message);
      if (job) job->reset();
      _exit(0);
    }
    if (process > 0) processes.push_back(process);
  }
  for (size_t i = 0; i < processes.size(); ++i) {
    int status = 0;
    waitpid(processes[i], &status, 0);
    const auto rank = static_cast<Rank>(i);
    if (WIFSIGNALED(status) && rank != to_die)
      complaints.add(rank, "ended by signal " + std::to_string(WTERMSIG(status)));
  }
  munmap(memory, sizeof(Blackboard));
  return complaints.all();
}

/// All ranks' data come in the order of ranks, in every size and again and again.
std::string gather_all_sizes(Bootstrap& job) {
  for (const size_t bytes : {0, 1, 7, 4096, 5000, 20'000}) {
    std::vector<std::byte> mine(bytes), all(bytes * static_cast<size_t>(job.size()));
    for (size_t i = 0; i < bytes; ++i) mine[i] = testing::pattern(job.rank(), 0, i, 0);
    if (const Status done = job.allgather(mine.data(), bytes, all.data()); !done)
      return done.error().message;
    for (Rank rank = 0; rank < job.size(); ++rank) {
      for (size_t i = 0; i < bytes; ++i) {
        if (all[static_cast<size_t>(rank) * bytes + i] != testing::pattern(rank, 0, i, 0))
          return fmt::format("byte {} of rank {} differs, {} each", i, rank, bytes);
      }
    }
    if (const Status met = job.barrier(); !met) return met.error().message;
  }
  return "";
}

TEST(JoinedJob, GathersInTheOrderOfRanks) {
  EXPECT_EQ(run_joined({0}, gather_all_sizes), "");
  EXPECT_EQ(run_joined({0, 0, 0}, gather_all_sizes), "");
  EXPECT_EQ(run_joined({0, 1}, gather_all_sizes), "");
  EXPECT_EQ(run_joined({0, 1, 2, 0, 1, 0, 1}, gather_all_sizes), "");
}

TEST(JoinedJob, NobodyComesTooLateToTheFirstMeeting) {
  EXPECT_EQ(run_joined({0, 0, 1, 1},
                       [](Bootstrap& job) -> std::string {
                         if (job.rank() == 3)
                           std::this_thread::sleep_for(std::chrono::milliseconds(200));
                         const Status met = job.barrier();
                         return met ? "" : met.error().message;
                       }),
            "");
}

/// Who leads the machine of that rank if it comes first; others may.
Rank leader_of(const std::vector<int>& machines, Rank rank) {
  return static_cast<Rank>(std::find(machines.begin(), machines.end(), machines[rank]) -
                           machines.begin());
}

TEST(JoinedJob, ADeathIsKnownToAllWithinTwoSeconds) {
  const std::vector<std::vector<int>> layouts = {{0, 0, 0}, {0, 0, 1, 1}};
  for (const std::vector<int>& machines : layouts) {
    for (Rank victim = 0; victim < static_cast<Rank>(machines.size()); ++victim) {
      SCOPED_TRACE(::testing::Message() << "victim " << victim << " of " << machines.size());
      const auto wait_for_it = [&](Bootstrap& job) -> std::string {
        if (const Status met = job.barrier(); !met) return met.error().message;
        if (job.rank() == victim) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          raise(SIGKILL);
        }
        // Some wait in a barrier, some look now and then.
        const auto start = Clock::now();
        if (job.rank() % 2 == 0) {
          if (job.barrier()) return "the barrier succeeds without a rank";
        } else {
          while (!job.failure() && Clock::now() - start < std::chrono::seconds(5)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            if (leader_of(machines, job.rank()) == victim) (void)job.barrier();
          }
        }
        if (Clock::now() - start > std::chrono::milliseconds(2050)) return "too late";
        const auto failure = job.failure();
        if (!failure) return "no failure";
        if (failure->culprit != victim) return "wrong culprit: " + failure->what;
        if (failure->what != fmt::format("rank {} has died", victim)) return failure->what;
        return "";
      };
      EXPECT_EQ(run_joined(machines, wait_for_it, victim), "");
    }
  }
}

TEST(JoinedJob, TheFirstFailureReportedIsEverybodys) {
  EXPECT_EQ(run_joined({0, 0, 1, 2, 2},
                       [](Bootstrap& job) -> std::string {
                         (void)job.barrier();  // rank 4 may be through and others not
                         if (job.rank() == 4)
                           job.abort({4, ErrorCode::kDeadline, "rank 4 has had enough"});
                         const Status met = job.barrier();
                         if (met) return "the barrier succeeds after an abort";
                         const auto failure = job.failure();
                         if (!failure || failure->culprit != 4 ||
                             failure->code != ErrorCode::kDeadline ||
                             failure->what != "rank 4 has had enough")
                           return "another failure: " + met.error().message;
                         return "";
                       }),
            "");
}

TEST(JoinedJob, ReportsAtTheSameTimeComeOutTheSame) {
  EXPECT_THAT(
      run_joined({0, 1, 1, 2},
                 [](Bootstrap& job) -> std::string {
                   (void)job.barrier();
                   job.abort({job.rank(), ErrorCode::kSystem, fmt::format("[{}]", job.rank())});
                   return "says " + job.failure().value_or(Failure{}).what;
                 }),
      ::testing::AnyOf(::testing::Not(::testing::ContainsRegex("[123]\\]")),
                       ::testing::Not(::testing::ContainsRegex("[023]\\]")),
                       ::testing::Not(::testing::ContainsRegex("[013]\\]")),
                       ::testing::Not(::testing::ContainsRegex("[012]\\]"))));
}

TEST(JoinedJob, RanksThatDisagreeOnALengthAreTold) {
  EXPECT_THAT(run_joined({0, 1},
                         [](Bootstrap& job) -> std::string {
                           std::vector<std::byte> mine(16), all(64);
                           const Status done = job.allgather(
                               mine.data(), static_cast<size_t>(job.rank()) + 1, all.data());
                           return done ? "succeeds" : done.error().message;
                         }),
              ::testing::AllOf(::testing::HasSubstr("rank 0: ranks disagree"),
                               ::testing::HasSubstr("rank 1: ranks disagree")));
}

TEST(JoinedJob, ARankThatNeverComesIsNamed) {
  EXPECT_THAT(run_joined({0, 1, -1}, gather_all_sizes, -1, 1),
              ::testing::AllOf(::testing::HasSubstr("rank 0: not joined: 1 of 3 ranks did not come "
                                                    "within 1 s, rank 2 first"),
                               ::testing::HasSubstr("rank 1: not joined: 1 of 3 ranks did not")));
}

TEST(JoinedJob, WhoLeavesWhileOthersWaitIsNamed) {
  for (const std::vector<int>& machines : {std::vector{0, 0}, std::vector{0, 1}}) {
    for (const Rank leaver : {0, 1}) {
      const std::string all = run_joined(machines, [&](Bootstrap& job) -> std::string {
        if (const Status met = job.barrier(); !met) return met.error().message;
        if (job.rank() == leaver) return "";
        const Status met = job.barrier();
        return met ? "succeeds" : met.error().message;
      });
      EXPECT_EQ(all, fmt::format("rank {}: rank {} ended while others still wait for it\n",
                                 1 - leaver, leaver));
    }
  }
}

}  // namespace
}  // namespace ibcoll
