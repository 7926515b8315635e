// Ranks that are launched as processes: what becomes of them, and of those that started them, when
// some are killed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "engine/bootstrap/peer_watch.h"
#include "engine/bootstrap/shared_region.h"
#include "tests/command.h"
#include "tests/launched.h"

namespace ibcoll {
namespace {

TEST(Launch, AKilledRankIsNamedToAllOthersAndToTheCaller) {
  InSharedMemory<std::array<char[128], 4>> seen;
  InSharedMemory<std::atomic<pid_t>> victim;
  LaunchOptions options = quiet(4);
  std::string told;
  options.on_failure = [&](const Failure& failure) { told = failure.what; };
  const auto result = launch_processes(options, [&](Bootstrap& bootstrap) -> int {
    if (bootstrap.rank() == 3) {
      *victim = getpid();
      kill(getpid(), SIGKILL);
    }
    const Status status = bootstrap.barrier();
    const auto failure = bootstrap.failure();
    if (status || !failure || failure->culprit != 3) return kNoError;
    std::strcpy((*seen)[static_cast<size_t>(bootstrap.rank())], failure->what.c_str());
    return kGood;
  });
  EXPECT_EQ(result.value(), 128 + SIGKILL);
  EXPECT_EQ(told, fmt::format("rank 3 (pid {}) was killed by signal 9 (Killed)", victim->load()));
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ((*seen)[rank], told);
}

TEST(Launch, SurvivorsThatDoNotEndAreKilledAfterTheGrace) {
  LaunchOptions options = quiet(3);
  options.grace_ns = 50'000'000;
  const auto result = launch_processes(options, [](Bootstrap& bootstrap) -> int {
    if (bootstrap.rank() == 1) return 5;
    while (true) pause();
  });
  EXPECT_EQ(result.value(), 5);
}

TEST(Launch, SurvivorsOfADeathMayBeKept) {
  for (const int status : {kGood, kWrong}) {
    InSharedMemory<std::atomic<int>> ended_well;
    LaunchOptions options = quiet(3);
    options.grace_ns = 50'000'000;
    options.keep_survivors = true;
    const auto result = launch_processes(options, [&](Bootstrap& bootstrap) -> int {
      if (bootstrap.rank() == 1) raise(SIGKILL);
      wait_until([&] { return bootstrap.failure().has_value(); });
      usleep(500'000);
      ended_well->fetch_add(1);
      return status;
    });
    EXPECT_EQ(result.value(), status) << "the survivors'";
    EXPECT_EQ(ended_well->load(), 2);
  }
}

TEST(Launch, WhereNobodySurvivesTheResultIsADeath) {
  LaunchOptions options = quiet(3);
  options.keep_survivors = true;
  const auto result = launch_processes(options, [&](Bootstrap&) -> int { return raise(SIGKILL); });
  EXPECT_EQ(result.value(), 128 + SIGKILL);
}

TEST(Launch, SurvivorsOfADeathAreKilledWhereTheJobEndsForAnotherReason) {
  InSharedMemory<std::atomic<int>> kept;
  LaunchOptions options = quiet(3);
  options.grace_ns = 50'000'000;
  options.keep_survivors = true;
  std::vector<std::string> told;
  options.on_failure = [&](const Failure& failure) { told.push_back(failure.what); };
  const auto result = launch_processes(options, [&](Bootstrap& bootstrap) -> int {
    if (bootstrap.rank() == 1) raise(SIGKILL);
    wait_until([&] { return bootstrap.failure().has_value(); });
    usleep(300'000);
    kept->fetch_add(1);
    if (bootstrap.rank() == 0) bootstrap.end_after_death({0, ErrorCode::kMismatch, "enough of it"});
    while (true) pause();
  });
  EXPECT_EQ(result.value(), 128 + SIGKILL);
  EXPECT_EQ(kept->load(), 2);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_THAT(told[0], ::testing::HasSubstr("rank 1"));
  EXPECT_EQ(told[1], "enough of it");
}

/// Runs `main` in a forked process that launches ranks, so that it can be killed.
pid_t start_launcher(int ranks, const RankMain& main) {
  const pid_t pid = fork();
  if (pid == 0) _exit(launch_processes(quiet(ranks), main).value_or(99));
  return pid;
}

/// The process ids of three ranks.
struct Pids {
  std::array<std::atomic<pid_t>, 3> ranks;
  /// Their pidfds, once all have started.
  std::vector<UniqueFd> open_all() {
    std::vector<UniqueFd> processes;
    for (auto& pid : ranks) {
      wait_until([&] { return pid != 0; });
      processes.push_back(open_process(pid));
    }
    return processes;
  }
};

bool ended(const UniqueFd& process, int timeout_ms) {
  pollfd end{process.get(), POLLIN, 0};
  return !process.valid() || poll(&end, 1, timeout_ms) == 1;
}

TEST(Launch, NoRankOutlivesALauncherThatIsKilled) {
  InSharedMemory<Pids> pids;
  const pid_t launcher = start_launcher(3, [&](Bootstrap& bootstrap) -> int {
    pids->ranks[static_cast<size_t>(bootstrap.rank())] = getpid();
    while (true) pause();
  });
  const auto processes = pids->open_all();
  kill(launcher, SIGKILL);
  ASSERT_EQ(waitpid(launcher, nullptr, 0), launcher);
  for (const UniqueFd& process : processes) EXPECT_TRUE(ended(process, 60'000));
}

TEST(Launch, AnInterruptEndsAllRanksEvenStubbornOnes) {
  for (const int number : {SIGINT, SIGTERM}) {
    InSharedMemory<Pids> pids;
    const pid_t launcher = start_launcher(3, [&](Bootstrap& bootstrap) -> int {
      if (bootstrap.rank() == 1) signal(SIGTERM, SIG_IGN);
      pids->ranks[static_cast<size_t>(bootstrap.rank())] = getpid();
      while (true) pause();
    });
    const auto processes = pids->open_all();
    kill(launcher, number);
    int status = 0;
    ASSERT_EQ(waitpid(launcher, &status, 0), launcher);
    EXPECT_EQ(WEXITSTATUS(status), 128 + number);
    for (const UniqueFd& process : processes) EXPECT_TRUE(ended(process, 0));
  }
}

TEST(Launch, NothingIsLeftInDevShmEvenWhenKilledInTheMidst) {
  using testing_tools::files_in_dev_shm;
  const auto before = files_in_dev_shm();
  const auto result = launch_processes(quiet(2), [&](Bootstrap& bootstrap) -> int {
    auto region = SharedRegion::create(bootstrap, 0, 1 << 20, "test");
    if (!region || files_in_dev_shm() != before) return kWrong;
    if (!bootstrap.barrier()) return kWrong;
    if (bootstrap.rank() == 0) kill(getpid(), SIGKILL);
    return bootstrap.barrier() ? kNoError : kGood;
  });
  EXPECT_EQ(result.value(), 128 + SIGKILL);
  EXPECT_EQ(files_in_dev_shm(), before);
}

TEST(Launch, SiblingsMayCopyFromEachOthersMemory) {
  const auto result = launch_processes(quiet(2), [](Bootstrap& bootstrap) -> int {
    uint64_t value = 100 + static_cast<uint64_t>(bootstrap.rank());
    const std::array<int64_t, 2> mine{getpid(), reinterpret_cast<int64_t>(&value)};
    std::array<std::array<int64_t, 2>, 2> all{};
    if (!bootstrap.allgather(&mine, sizeof mine, &all)) return kWrong;
    const auto& peer = all[static_cast<size_t>(1 - bootstrap.rank())];
    uint64_t theirs = 0;
    const iovec to{&theirs, 8}, from{reinterpret_cast<void*>(peer[1]), 8};
    if (process_vm_readv(static_cast<pid_t>(peer[0]), &to, 1, &from, 1, 0) != 8) return kWrong;
    if (!bootstrap.barrier()) return kWrong;
    return theirs == 101 - static_cast<uint64_t>(bootstrap.rank()) ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), kGood);
}

}  // namespace
}  // namespace ibcoll
