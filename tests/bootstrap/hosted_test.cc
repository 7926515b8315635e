// Jobs of processes that belong to a host: ibcoll_init_with over an allgather of the host's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <ibcoll/ibcoll.hpp>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/proc.h"
#include "tests/shared_host.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using testing::exchange;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::SharedHost;
using testing::threads_of_its_own;

std::string exchange(ibcoll_context* context, int call) {
  return exchange(ibcoll_world(context), call);
}

#define DO(call) \
  if ((call) != IBCOLL_OK) return std::string(#call " gives ") + ibcoll_last_error()
#define CHECKED(expression) \
  if (const std::string complaint = (expression); !complaint.empty()) return complaint

class OnLayouts : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (*GetParam() != 0) setenv("IBCOLL_LAYOUT", GetParam(), 1);
  }
  void TearDown() override { unsetenv("IBCOLL_LAYOUT"); }
};

TEST_P(OnLayouts, ABlockingAllgatherMakesAJob) {
  SharedHost& host = SharedHost::create();
  EXPECT_EQ(run_ranks(4,
                      [&](int rank) -> std::string {
                        SharedHost::Member member(host, rank, 4);
                        const ibcoll_bootstrap given = member.blocking();
                        ibcoll_context* context = nullptr;
                        DO(ibcoll_init_with(&given, &context));
                        if (ibcoll_rank(context) != rank || ibcoll_size(context) != 4)
                          return "another rank or size";
                        const int asked = member.calls();
                        for (int call = 0; call < 5; ++call) CHECKED(exchange(context, call));
                        if (member.calls() != asked) return "the host is asked for calls";
                        DO(ibcoll_finalize(context));
                        return "";
                      }),
            "");
}

TEST_P(OnLayouts, PostAndTestMakeAJob) {
  SharedHost& host = SharedHost::create();
  EXPECT_EQ(run_ranks(4,
                      [&](int rank) -> std::string {
                        SharedHost::Member member(host, rank, 4);
                        const ibcoll_bootstrap given = member.posting();
                        if (rank == 3) std::this_thread::sleep_for(std::chrono::milliseconds(100));
                        ibcoll_context* context = nullptr;
                        DO(ibcoll_init_with(&given, &context));
                        CHECKED(exchange(context, 0));
                        DO(ibcoll_finalize(context));
                        return "";
                      }),
            "");
}

TEST_P(OnLayouts, TwoJobsOfTheSameProcessesDoNotMeet) {
  SharedHost &host = SharedHost::create(), &other = SharedHost::create();
  EXPECT_EQ(run_ranks(4,
                      [&](int rank) -> std::string {
                        SharedHost::Member member(host, rank, 4), turned(other, 3 - rank, 4);
                        const ibcoll_bootstrap given = member.blocking(), second = turned.posting();
                        ibcoll_context *a = nullptr, *b = nullptr;
                        DO(ibcoll_init_with(&given, &a));
                        DO(ibcoll_init_with(&second, &b));
                        if (ibcoll_rank(a) != rank || ibcoll_rank(b) != 3 - rank)
                          return "another rank";
                        for (int call = 0; call < 10; ++call) {
                          CHECKED(exchange(a, call));
                          CHECKED(exchange(b, 100 + call));
                        }
                        // A call of each is under way at the same time.
                        const std::vector<int> send(4, rank);
                        std::vector<int> from_a(4), from_b(4);
                        ibcoll_request *of_a = nullptr, *of_b = nullptr;
                        const ibcoll_call to_a =
                            ibcoll_call_alltoall(send.data(), from_a.data(), sizeof(int), nullptr);
                        const ibcoll_call to_b =
                            ibcoll_call_alltoall(send.data(), from_b.data(), sizeof(int), nullptr);
                        DO(ibcoll_call_init(ibcoll_world(a), &to_a, &of_a));
                        DO(ibcoll_call_init(ibcoll_world(b), &to_b, &of_b));
                        DO(ibcoll_start(of_a));
                        DO(ibcoll_start(of_b));
                        DO(ibcoll_wait(of_a));
                        DO(ibcoll_wait(of_b));
                        DO(ibcoll_call_free(of_a));
                        DO(ibcoll_call_free(of_b));
                        if (from_a != std::vector{0, 1, 2, 3} || from_b != std::vector{3, 2, 1, 0})
                          return "one job has the other's data";
                        // One is left, the other goes on.
                        DO(ibcoll_finalize(a));
                        CHECKED(exchange(b, 200));
                        DO(ibcoll_finalize(b));
                        return "";
                      }),
            "");
}

/// How many entries a file or folder of /proc/self has: open files, mappings.
size_t entries(const std::string& of) {
  const std::string path = "/proc/self/" + of;
  if (std::filesystem::is_directory(path))
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
  std::ifstream file(path);
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

/// Whether this process has so many threads in a while: one that is joined is still seen for a
/// moment.
bool has_threads(int number) {
  for (int tries = 0; entries("task") != static_cast<size_t>(number); ++tries) {
    if (tries == 5000) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST_P(OnLayouts, AHundredJobsAfterEachOtherLeaveNothing) {
  SharedHost& host = SharedHost::create();
  EXPECT_EQ(run_ranks(4,
                      [&](int rank) -> std::string {
                        SharedHost::Member member(host, rank, 4);
                        const ibcoll_bootstrap given = member.blocking();
                        const int threads = threads_of_its_own();
                        size_t files = 0, mappings = 0, bytes = 0;
                        for (int round = 0; round < 100; ++round) {
                          ibcoll_context* context = nullptr;
                          DO(ibcoll_init_with(&given, &context));
                          CHECKED(exchange(context, round));
                          DO(ibcoll_finalize(context));
                          // The first contexts' handles rest before they are used again.
                          if (round != 79) continue;
                          bytes = mallinfo2().uordblks;
                          files = entries("fd");
                          mappings = entries("maps");
                        }
                        if (entries("fd") != files) return "files stay open";
                        if (!has_threads(threads)) return "threads go on";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
                        return "";  // memory is the sanitizer's then
#endif
                        if (entries("maps") > mappings + 2) return "memory stays mapped";
                        const size_t now = mallinfo2().uordblks;
                        if (now > bytes + 4096)
                          return fmt::format("20 jobs keep {} bytes", now - bytes);
                        return "";
                      }),
            "");
}

TEST_P(OnLayouts, SignalsAreForTheProgramsOwnThreads) {
  setenv("IBCOLL_LOOPBACK_SEED", "1", 1);  // the loopback has a thread, too, then
  SharedHost& host = SharedHost::create();
  EXPECT_EQ(
      run_ranks(4,
                [&](int rank) -> std::string {
                  SharedHost::Member member(host, rank, 4);
                  const job here(member.blocking());
                  CHECKED(exchange(here.context().handle(), 0));
                  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
                    if (task.path().filename() == std::to_string(getpid())) continue;
                    std::ifstream status(task.path() / "status");
                    for (std::string word; status >> word && word != "SigBlk:";) {
                    }
                    uint64_t blocked = 0;
                    status >> std::hex >> blocked;
                    for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD})
                      if ((blocked >> (number - 1) & 1) == 0)
                        return fmt::format("a thread takes signal {}", number);
                  }
                  return "";
                }),
      "");
  unsetenv("IBCOLL_LOOPBACK_SEED");
}

INSTANTIATE_TEST_SUITE_P(Layouts, OnLayouts, ::testing::Values("", "2,2"), [](const auto& info) {
  return *info.param == 0 ? std::string("OneServer") : std::string("TwoServers");
});

TEST(Hosted, AJobOfOneRankIsOne) {
  SharedHost::Member member(SharedHost::create(), 0, 1);
  const job alone(member.blocking());
  EXPECT_EQ(alone.context().size(), 1);
  EXPECT_EQ(exchange(alone.context().world().handle(), 0), "");
}

TEST(Hosted, TheJobOutlivesTheParentOfItsProcesses) {
  // The parent of the ranks ends once they have joined; they go on, and say so.
  SharedHost& host = SharedHost::create();
  Complaints complaints(2);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = fork();
  if (parent == 0) {
    int joined[2] = {-1, -1};
    if (pipe(joined) != 0) _exit(1);
    for (int rank = 0; rank < 2; ++rank) {
      if (fork() != 0) continue;
      alarm(60);
      const pid_t starter = getppid();
      complaints.add(rank, [&]() -> std::string {
        SharedHost::Member member(host, rank, 2);
        const ibcoll_bootstrap given = member.blocking();
        ibcoll_context* context = nullptr;
        DO(ibcoll_init_with(&given, &context));
        if (write(joined[1], "", 1) != 1) return "no pipe";
        while (getppid() == starter) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (int call = 0; call < 20; ++call) {
          CHECKED(exchange(context, call));
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        DO(ibcoll_finalize(context));
        return "went on";
      }());
      _exit(0);
    }
    char byte = 0;
    for (int rank = 0; rank < 2; ++rank)
      if (read(joined[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  while (wait(nullptr) > 0) {
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  EXPECT_EQ(complaints.all(), "rank 0: went on\nrank 1: went on\n");
}

TEST(Hosted, AKilledRankIsTheOthersErrorAndEndsNoProcess) {
  for (const char* layout : {"", "2,2"}) {
    if (*layout != 0) setenv("IBCOLL_LAYOUT", layout, 1);
    SharedHost& host = SharedHost::create();
    const std::string all = run_ranks(
        4,
        [&](int rank) -> std::string {
          SharedHost::Member member(host, rank, 4);
          const ibcoll_bootstrap given = member.blocking();
          ibcoll_context* context = nullptr;
          DO(ibcoll_init_with(&given, &context));
          CHECKED(exchange(context, 0));
          if (rank == 2) raise(SIGKILL);
          std::string first;
          for (int call = 1; call < 4; ++call) {
            const ibcoll_status status = ibcoll_barrier(ibcoll_world(context), nullptr);
            if (status != IBCOLL_ERR_PEER_FAILED) return fmt::format("status {}", status);
            if (call > 1 && first != ibcoll_last_error()) return "another error every time";
            first = ibcoll_last_error();
          }
          if (first.find("rank 2 (pid ") == std::string::npos) return first;
          if (ibcoll_finalize(context) != IBCOLL_ERR_PEER_FAILED) return "it is left well";
          return "";
        },
        2);
    EXPECT_EQ(all, "") << layout;
    unsetenv("IBCOLL_LAYOUT");
  }
}

TEST(Hosted, AnExitWithoutFinalizeIsNoGoodbyeToOthers) {
  SharedHost& host = SharedHost::create();
  EXPECT_THAT(run_ranks(2,
                        [&](int rank) -> std::string {
                          SharedHost::Member member(host, rank, 2);
                          const ibcoll_bootstrap given = member.blocking();
                          ibcoll_context* context = nullptr;
                          DO(ibcoll_init_with(&given, &context));
                          if (rank == 0) exit(7);
                          DO(ibcoll_barrier(ibcoll_world(context), nullptr));
                          return "";
                        }),
              HasSubstr("ended with status 7"));
}

}  // namespace
}  // namespace ibcoll
