// Ranks whose process executes another program: it has their number and nothing of what the others
// use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tests/api_job.h"
#include "tests/joined_job.h"
#include "tests/launched.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using ::testing::HasSubstr;
using testing::JoinedRun;

/// Long enough that nobody who waits for its end takes it for what is told at once.
[[noreturn]] void execute_another(const char* seconds = "30") {
  execl("/bin/sleep", "sleep", seconds, static_cast<char*>(nullptr));
  _exit(77);
}

TEST(ExecutedPrograms, OfALaunchedRankAreToldToAllAtOnce) {
  InSharedMemory<std::atomic<pid_t>> executes;
  InSharedMemory<std::atomic<int>> heard;
  LaunchOptions options = quiet(3);
  std::string told;
  options.on_failure = [&](const Failure& failure) { told = failure.what; };
  const auto result = launch_processes(options, [&](Bootstrap& bootstrap) -> int {
    if (const Status met = bootstrap.barrier(); !met) return kWrong;
    if (bootstrap.rank() == 1) {
      *executes = getpid();
      execute_another();
    }
    const Status met = bootstrap.barrier();
    const auto failure = bootstrap.failure();
    const bool right = !met && failure && failure->culprit == 1 &&
                       failure->what == fmt::format("rank 1 (pid {}) has executed another program",
                                                    executes->load());
    if (right) ++*heard;
    wait_until([&] { return *heard == 2 || !right; });
    kill(*executes, SIGKILL);
    return right ? kGood : kNoError;
  });
  EXPECT_EQ(result.value(), 1);
  EXPECT_EQ(*heard, 2);
  EXPECT_THAT(told, HasSubstr("has executed another program"));
}

TEST(ExecutedPrograms, AreNotThoseOfARanksChildrenNorFilesThatItCloses) {
  const auto result = launch_processes(quiet(3), [](Bootstrap& bootstrap) -> int {
    if (const Status met = bootstrap.barrier(); !met) return kWrong;
    if (bootstrap.rank() == 1) {
      const pid_t child = fork();
      if (child == 0) execute_another("0");
      waitpid(child, nullptr, 0);
      close_range(3, ~0U, 0);
    }
    for (int round = 0; round < 100; ++round) {
      if (!bootstrap.barrier()) return kWrong;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return kGood;
  });
  EXPECT_EQ(result.value(), 0);
}

TEST(ExecutedPrograms, OfARankOfACallEndTheJob) {
  for (const char* layout : {"3", "1,2", "1,1,1"}) {
    InSharedMemory<std::atomic<pid_t>> executes;
    int status = 0;
    const auto body = [&](const ApiRank& rank) {
      ibcoll_group* const world = ibcoll_world(rank.context);
      std::vector<char> mine(1 << 20), all(3 << 20);
      rank.good(ibcoll_allgather(world, mine.data(), all.data(), mine.size(), nullptr), "before");
      if (ibcoll_rank(rank.context) == 1) {
        *executes = getpid();
        execute_another();
      }
      const ibcoll_status ended =
          ibcoll_allgather(world, mine.data(), all.data(), mine.size(), nullptr);
      const std::string line = ended == IBCOLL_OK ? "nobody has noticed" : ibcoll_last_error();
      if (ended != IBCOLL_ERR_PEER_FAILED ||
          line.find("has executed another program") == std::string::npos)
        rank.complain(line);
      if (ibcoll_rank(rank.context) == 0) kill(*executes, SIGKILL);
    };
    EXPECT_EQ(testing::launched(layout, 3, body, &status), "") << layout;
    EXPECT_EQ(status, 1) << layout;
  }
}

TEST(ExecutedPrograms, OfARankThatHasJoinedAreToldAtOnce) {
  using Clock = std::chrono::steady_clock;
  for (const std::vector<int>& machines : {std::vector{0, 0, 0}, std::vector{0, 0, 1, 1}}) {
    for (Rank victim = 0; victim < static_cast<Rank>(machines.size()); ++victim) {
      SCOPED_TRACE(::testing::Message() << "rank " << victim << " of " << machines.size());
      JoinedRun run;
      run.machines = machines;
      run.to_die = {victim};
      InSharedMemory<std::atomic<pid_t>> executes;
      InSharedMemory<std::atomic<int>> here;
      EXPECT_EQ(testing::run_joined(
                    run,
                    [&](Bootstrap& job) -> std::string {
                      if (const Status met = job.barrier(); !met) return met.error().message;
                      ++*here;
                      wait_until([&] { return *here == job.size(); });
                      if (job.rank() == victim) {
                        *executes = getpid();
                        execute_another();
                      }
                      const auto start = Clock::now();
                      const Status met = job.barrier();
                      kill(*executes, SIGKILL);
                      if (met) return "the barrier succeeds without a rank";
                      if (Clock::now() - start > std::chrono::seconds(6)) return "too late";
                      const auto failure = job.failure();
                      if (!failure || failure->culprit != victim) return "another failure";
                      // Of a leader other machines learn no more than that its connection ended.
                      const bool may_lead = machines.back() != 0;
                      const bool named =
                          failure->what.ends_with(") has executed another program") ||
                          (may_lead && failure->what == fmt::format("rank {} has died", victim));
                      return named ? "" : failure->what;
                    }),
                "");
    }
  }
}

}  // namespace
}  // namespace ibcoll
