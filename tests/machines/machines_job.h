#pragma once
/// Jobs between machines that are namespaces of this one: their ranks know each other by TCP only.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/faults.h"
#include "tests/joined_job.h"
#include "tests/machines/run.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll::testing {

/// Tests whose body runs on the head of machines.
class MachinesTest : public ::testing::Test {
 protected:
  static bool on_head() { return getenv("MACHINES") != nullptr; }

  void SetUp() override {
    if (on_head()) return;
    const testing_tools::Ran ran = testing_tools::run_tool("machines", "1 true");
    if (ran.status == 2) GTEST_SKIP() << ran.err;
    if (!usable_network_port("ucx")) GTEST_SKIP() << "built without UCX";
  }

  /// Runs this very test once more, on the head of machines with so many ranks.
  static void run_on_head(const std::string& layout, int limit_s = 280) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string own = std::filesystem::read_symlink("/proc/self/exe");
    const testing_tools::Ran ran = testing_tools::run_shell(fmt::format(
        "env -u GTEST_OUTPUT timeout {} {}/machines {} --launcher none {} "
        "--gtest_filter={}.{}",
        limit_s, testing_tools::bin_dir(), layout, own, test->test_suite_name(), test->name()));
    EXPECT_EQ(ran.status, 0) << layout << "\n" << ran.out << ran.err;
    if (getenv("TEST_VERBOSE") != nullptr) std::fputs(ran.err.c_str(), stderr);
  }
};

/// What a rank does on its machine; gives its complaint.
inline std::string join_and_run(Blackboard& board, Rank rank, int ranks, Complaints& complaints,
                                const ContextOptions& options,
                                const std::function<void(const RankView&)>& body) {
  TestManager manager(board, rank, ranks);
  auto job = join_through(manager);
  if (!job) return "not joined: " + job.error().message;
  auto context = Context::create(**job, options);
  if (!context) return "no context: " + context.error().message;
  body({**context, complaints});
  const Status closed = (*context)->close();
  return closed ? "" : "close: " + closed.error().message;
}

/// On the head: runs `body` on every rank of the machines. The result is as run_job's; the ranks'
/// processes are told to `stage`, if given. A rank that a signal ends complains of nothing.
inline std::string run_between_machines(const std::function<void(const RankView&)>& body,
                                        Stage* stage = nullptr) {
  const auto machines = machines::known_machines();
  if (!machines) return machines.error().message;
  int ranks = 0;
  for (const auto& machine : *machines) ranks += machine.ranks;
  Complaints complaints(ranks);
  const SharedBlackboard board;
  ContextOptions options;
  options.transport = "ucx";
  std::fflush(nullptr);
  std::vector<pid_t> processes;
  for (const auto& machine : *machines) {
    for (int local = 0; local < machine.ranks; ++local) {
      const auto rank = static_cast<Rank>(processes.size());
      processes.push_back(fork());
      if (processes.back() != 0) continue;
      // Goes to the machine and forks the rank there.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto child = machines::fork_into(machine.keeper);
      if (!child) {
        complaints.add(rank, child.error().message);
      } else if (*child == 0) {
        const std::string text = join_and_run(*board, rank, ranks, complaints, options, body);
        if (!text.empty()) complaints.add(rank, text);
      } else {
        if (stage != nullptr) stage->pids[rank] = *child;
        waitpid(*child, nullptr, 0);
      }
      _exit(0);
    }
  }
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    waitpid(processes[rank], nullptr, 0);
    if (rank == 0) board->given_up = true;
  }
  return complaints.all();
}

}  // namespace ibcoll::testing
