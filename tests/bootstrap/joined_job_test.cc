// Jobs of processes that a launcher has started: meeting, death, failures and leaving.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "engine/bootstrap/machine_watch.h"
#include "tests/joined_job.h"

namespace ibcoll {
namespace {

using testing::Blackboard;
using testing::gather_all_sizes;
using testing::JoinedRun;
using testing::run_joined;
using Clock = std::chrono::steady_clock;

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

TEST(JoinedJob, AMeetingEndsWithTheLauncher) {
  for (const std::vector<int>& machines : {std::vector{0, 0, -1}, std::vector{0, 1, 1, -1}}) {
    const pid_t launcher = fork();
    if (launcher == 0) {
      pause();
      _exit(0);
    }
    const UniqueFd process = open_process(launcher);
    JoinedRun run;
    run.machines = machines;
    run.launcher = process.get();
    run.limit_s = 50;
    run.meanwhile = [&](Blackboard& board) {
      board.wait_for_text();
      kill(launcher, SIGKILL);
      waitpid(launcher, nullptr, 0);
    };
    const auto start = Clock::now();
    const std::string complaints =
        run_joined(run, [](Bootstrap&) -> std::string { return "joined without rank 3"; });
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(40));
    EXPECT_THAT(complaints, ::testing::HasSubstr("rank 0: not joined: the launcher has ended"));
    EXPECT_THAT(complaints, ::testing::HasSubstr("rank 1: not joined: the launcher has ended"));
  }
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
          while (!job.failure() && Clock::now() - start < std::chrono::seconds(15)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            if (leader_of(machines, job.rank()) == victim) (void)job.barrier();
          }
        }
        if (Clock::now() - start > std::chrono::milliseconds(2500)) return "too late";
        const auto failure = job.failure();
        if (!failure) return "no failure";
        if (failure->culprit != victim) return "wrong culprit: " + failure->what;
        // By name of the signal where that is known: of a leader other machines learn nothing.
        const bool known = failure->what.starts_with(fmt::format("rank {} (pid ", victim)) &&
                           failure->what.ends_with(") was killed by signal 9 (Killed)");
        const bool may_lead = machines.back() != 0;
        if (!known && !(may_lead && failure->what == fmt::format("rank {} has died", victim)))
          return failure->what;
        return "";
      };
      JoinedRun run;
      run.machines = machines;
      run.to_die = {victim};
      std::string wrong = run_joined(run, wait_for_it);
      // A machine that stands still makes it late, too, but not again and again.
      for (int more = 0; more < 2 && wrong.find("too late") != std::string::npos; ++more)
        wrong = run_joined(run, wait_for_it);
      EXPECT_EQ(wrong, "");
    }
  }
}

// Rank 0 watches the others as long as it is there.
TEST(JoinedJob, DeathsAreNoticedOnceTheLeaderHasLeft) {
  const auto look = [](Bootstrap& job) -> std::string {
    const auto places = exchange_places(job);
    if (!places) return places.error().message;
    MachineWatch watch(job, processes_at(places->here));
    if (job.rank() == 0) return "";
    if (job.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      raise(SIGKILL);
    }
    const auto start = Clock::now();
    while (true) {
      if (watch.find_dead() == 2) return watch.has_ended(2) ? "" : "it has not ended";
      if (Clock::now() - start > std::chrono::seconds(10)) return "not noticed";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  JoinedRun run;
  run.machines = {0, 0, 0, 0};
  run.to_die = {2};
  EXPECT_EQ(run_joined(run, look), "");
}

// Parts of a machine with leaders of their own, as containers may be. Who comes first leads: either
// may be the one that dies.
TEST(JoinedJob, DeathsAreNoticedWhoeverLeadsTheRank) {
  const testing::SharedBlackboard looked;  // nobody leaves before all have
  const auto look = [&](Bootstrap& job) -> std::string {
    const auto places = exchange_places(job);
    if (!places) return places.error().message;
    MachineWatch watch(job, processes_at(places->here));
    if (job.rank() == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      raise(SIGKILL);
    }
    const auto start = Clock::now();
    while (watch.find_dead() != 3) {
      if (Clock::now() - start > std::chrono::seconds(10)) return "not noticed";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const bool right = watch.has_ended(3) && !watch.has_ended(job.rank() == 0 ? 1 : 0);
    ++looked->written;
    while (looked->written < 3 && Clock::now() - start < std::chrono::seconds(10))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return right ? "" : "wrong ends";
  };
  for (const Rank late : {2, 3}) {
    SCOPED_TRACE(::testing::Message() << "rank " << late << " comes late");
    looked->written = 0;
    JoinedRun run;
    run.machines = {0, 0, 1, 1};
    run.to_die = {3};
    run.before = [late](Rank rank) {
      if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    };
    EXPECT_EQ(run_joined(run, look), "");
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

TEST(JoinedJob, RanksThatDisagreeOnWhoGivesAreTold) {
  EXPECT_THAT(
      run_joined({0, 1},
                 [](Bootstrap& job) -> std::string {
                   const std::byte mine{};
                   std::array<std::byte, 2> all{};
                   const Rank giver = job.rank();
                   const Status done = job.allgather_of({&giver, 1}, &mine, 1, all.data());
                   return done ? "succeeds" : done.error().message;
                 }),
      ::testing::AllOf(::testing::HasSubstr("on which of them give anything: ranks 0 and 1"),
                       ::testing::HasSubstr("rank 0: ranks disagree"),
                       ::testing::HasSubstr("rank 1: ranks disagree")));
}

TEST(JoinedJob, ARankThatNeverComesIsNamed) {
  JoinedRun run;
  run.machines = {0, 1, -1};
  run.limit_s = 1;
  EXPECT_THAT(run_joined(run, gather_all_sizes),
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
      EXPECT_EQ(all,
                fmt::format("rank {}: rank {} has left the job while others still wait for it\n",
                            1 - leaver, leaver));
    }
  }
}

TEST(JoinedJob, WhoEndsWellWithoutAGoodbyeHasLeft) {
  for (const Rank leaver : {0, 1, 2}) {
    JoinedRun run;
    run.machines = {0, 0, 0};
    const std::string all = run_joined(run, [&](Bootstrap& job) -> std::string {
      if (const Status met = job.barrier(); !met) return met.error().message;
      if (job.rank() == leaver) _exit(0);
      const Status met = job.barrier();
      return met ? "succeeds" : met.error().message;
    });
    std::string expected;
    for (Rank rank = 0; rank < 3; ++rank) {
      if (rank != leaver)
        expected += fmt::format(
            "rank {}: rank {} has left the job while others still wait for it\n", rank, leaver);
    }
    EXPECT_EQ(all, expected);
  }
}

TEST(JoinedJob, AbsenceIsKnownOnOtherMachines) {
  for (const std::vector<int>& machines : {std::vector{0, 0, 0}, std::vector{0, 1, 1}}) {
    EXPECT_EQ(run_joined(machines,
                         [](Bootstrap& job) -> std::string {
                           if (const Status met = job.barrier(); !met) return met.error().message;
                           if (job.absence(2)) return "absent at first";
                           if (const Status met = job.barrier(); !met) return met.error().message;
                           if (job.rank() == 2) {
                             job.set_leaving(true);
                             const Status met = job.barrier();
                             return met ? "" : met.error().message;
                           }
                           const auto until = Clock::now() + std::chrono::seconds(10);
                           while (!job.absence(2) && Clock::now() < until)
                             std::this_thread::sleep_for(std::chrono::milliseconds(5));
                           const auto absence = job.absence(2);
                           const Status met = job.barrier();
                           if (!met) return met.error().message;
                           return absence ? "" : "never absent";
                         }),
              "");
  }
}

/// Calls in a child of a rank have no effect on the job.
TEST(JoinedJob, AForkOfARankTellsTheJobNothing) {
  for (const std::vector<int>& machines : {std::vector{0, 0}, std::vector{0, 1}}) {
    EXPECT_EQ(run_joined(machines,
                         [](Bootstrap& job) -> std::string {
                           if (const Status met = job.barrier(); !met) return met.error().message;
                           std::fflush(nullptr);
                           const pid_t child = fork();
                           if (child == 0) {
                             job.abort({job.rank(), ErrorCode::kPeerFailed, "a child gives up"});
                             const bool refused = !job.barrier();
                             job.set_leaving(true);
                             job.~Bootstrap();
                             _exit(refused ? 0 : 1);
                           }
                           int status = 0;
                           waitpid(child, &status, 0);
                           if (status != 0) return fmt::format("the child has status {}", status);
                           for (int i = 0; i < 3; ++i) {
                             if (const Status met = job.barrier(); !met) return met.error().message;
                           }
                           const bool absent = job.absence(0) || job.absence(1);
                           if (const Status met = job.barrier(); !met) return met.error().message;
                           if (absent) return "somebody is absent";
                           return job.failure() ? job.failure()->what : "";
                         }),
              "");
  }
}

TEST(JoinedJob, ADeathIsKnownThoughAChildOfTheDeadLives) {
  for (const std::vector<int>& machines : {std::vector{0, 0}, std::vector{0, 1}}) {
    for (const Rank victim : {0, 1}) {
      JoinedRun run;
      run.machines = machines;
      run.to_die = {victim};
      EXPECT_THAT(run_joined(run,
                             [&](Bootstrap& job) -> std::string {
                               if (const Status met = job.barrier(); !met)
                                 return met.error().message;
                               if (job.rank() == victim) {
                                 if (fork() == 0) {  // keeps what it inherits for a while
                                   std::this_thread::sleep_for(std::chrono::seconds(8));
                                   _exit(0);
                                 }
                                 raise(SIGKILL);
                               }
                               const auto start = Clock::now();
                               const Status met = job.barrier();
                               if (Clock::now() - start > std::chrono::seconds(6))
                                 return "too late";
                               return met ? "succeeds" : met.error().message;
                             }),
                  ::testing::StartsWith(fmt::format("rank {}: rank {} ", 1 - victim, victim)));
    }
  }
}

}  // namespace
}  // namespace ibcoll
