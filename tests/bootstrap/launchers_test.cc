// ib_a2a_bench under the launchers of MPI libraries, as a user starts it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/input.h"
#include "ibcoll/ibcoll.h"
#include "tests/command.h"
#include "tests/places.h"

namespace {

using ::testing::HasSubstr;

const std::string kTool = ibcoll::testing_tools::bin_dir() + "/ib_a2a_bench";

/// This test program.
std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

struct Launcher {
  std::string name, command;
};
void PrintTo(const Launcher& launcher, std::ostream* stream) { *stream << launcher.name; }

using Ran = ibcoll::testing_tools::CommandRan;

/// With what stands on standard error.
Ran run(const std::string& command) {
  return ibcoll::testing_tools::run_command("timeout 60 " + command + " 2>&1 </dev/null");
}
/// Standard output alone. Where the machine stands still for a while, ranks tell on standard error
/// for whom they wait, and go on.
Ran output_of(const std::string& command) {
  return ibcoll::testing_tools::run_command("timeout 60 " + command + " </dev/null");
}

class Launchers : public ::testing::TestWithParam<Launcher> {
 protected:
  void SetUp() override {
    const std::string program = GetParam().command.substr(0, GetParam().command.find(' '));
    if (std::system(("command -v " + program + " >/dev/null").c_str()) != 0)
      GTEST_SKIP() << program << " is not installed";
    // Open MPI refuses root and more ranks than cores unless told.
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  /// The command that starts `ranks` ranks of ib_a2a_bench.
  static std::string start(int ranks, const std::string& arguments) {
    return GetParam().command + " -n " + std::to_string(ranks) + " " + kTool + " " + arguments;
  }
};

TEST_P(Launchers, RunOneServer) {
  const Ran ran = output_of(start(4, "--sizes 1K --iterations 2 --batch 1us --check --json -"));
  ASSERT_EQ(ran.status, 0) << ran.out;
  const auto row = nlohmann::json::parse(ran.out);  // one line: rank 0 alone writes
  EXPECT_EQ(row["ranks"], 4);
  EXPECT_EQ(row["servers"], 1);
  EXPECT_EQ(row["transport"], "none");
  EXPECT_EQ(row["checked"], true);
}

TEST_P(Launchers, RunEmulatedServersOfUnequalSize) {
  const Ran ran =
      output_of(start(6,
                      "--layout 3,1,2 --transport auto --algorithm two_level_ring --sizes 4K "
                      "--iterations 2 --batch 1us --check --json -"));
  ASSERT_EQ(ran.status, 0) << ran.out;
  const auto row = nlohmann::json::parse(ran.out);
  EXPECT_EQ(row["layout"], "3,1,2");
  EXPECT_EQ(row["transport"], "loopback");
  EXPECT_EQ(row["net_messages_per_rank"], 5);  // the lone rank of server 1 to all others
}

TEST_P(Launchers, BadInputIsRefusedOnce) {
  const Ran ran = run(start(3, "--ranks 2"));
  EXPECT_NE(ran.status, 0);
  const std::string line = "ib_a2a_bench: --ranks 2, but the launcher has started 3";
  EXPECT_THAT(ran.out, HasSubstr(line));
  EXPECT_EQ(ran.out.find(line, ran.out.find(line) + 1), std::string::npos) << ran.out;
}

/// A job that goes on until somebody ends it. What it says is shown where its test has failed.
class EndlessJob {
 public:
  /// `command`: how it is started, with a mark in it that no other process has.
  EndlessJob(const std::string& command, const std::string& mark)
      : mark_(mark), said_(::testing::TempDir() + "endless_job." + mark) {
    child_ = fork();
    if (child_ == 0) {
      const std::string all = "exec " + command + " >" + said_ + " 2>&1 </dev/null";
      execl("/bin/sh", "sh", "-c", all.c_str(), nullptr);
      _exit(3);
    }
  }
  ~EndlessJob() {
    for (const pid_t rank : ranks()) kill(rank, SIGKILL);
    wait();
    if (::testing::Test::HasFailure())
      std::cerr << "The job has said:\n" << std::ifstream(said_).rdbuf() << '\n';
    std::filesystem::remove(said_);
  }
  EndlessJob(const EndlessJob&) = delete;
  EndlessJob& operator=(const EndlessJob&) = delete;

  std::vector<pid_t> ranks() const { return ibcoll::testing_tools::processes_with(mark_, kTool); }
  /// Whether all ranks have joined and measure: ib_a2a_bench maps memory of that name then.
  bool runs(size_t size) const {
    const std::vector<pid_t> here = ranks();
    return here.size() == size && std::all_of(here.begin(), here.end(), [](pid_t rank) {
             const auto maps = ibcoll::read_input("/proc/" + std::to_string(rank) + "/maps");
             return maps && maps->find("ibcoll copy speed") != std::string::npos;
           });
  }
  pid_t launcher() const { return child_; }
  int wait() {
    if (child_ > 0) waitpid(child_, &status_, 0);
    child_ = -1;
    return status_;
  }
  static std::string new_mark() {
    static int jobs = 0;
    return std::to_string(900'000 + (getpid() % 10'000) * 10 + jobs++);
  }

 private:
  std::string mark_, said_;
  pid_t child_ = -1;
  int status_ = 0;
};

template <class Condition>
bool wait_for(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  while (!condition() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return condition();
}

TEST_P(Launchers, AKilledRankEndsTheJobAndLeavesNothing) {
  const std::string mark = EndlessJob::new_mark();
  EndlessJob job("timeout 60 " + start(4, "--servers 2 --sizes 64K --iterations " + mark), mark);
  ASSERT_TRUE(wait_for([&] { return job.runs(4); }));
  const std::vector<pid_t> ranks = job.ranks();
  ASSERT_EQ(ranks.size(), 4u);
  kill(ranks[2], SIGKILL);
  const int status = job.wait();
  EXPECT_FALSE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 124))
      << status;
  EXPECT_TRUE(wait_for([&] { return job.ranks().empty(); }));
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find("ibcoll"), std::string::npos) << entry.path();
}

TEST_P(Launchers, AKilledLauncherLeavesNoRank) {
  const std::string mark = EndlessJob::new_mark();
  EndlessJob job(start(4, "--servers 2 --sizes 64K --iterations " + mark), mark);
  ASSERT_TRUE(wait_for([&] { return job.runs(4); }));
  kill(job.launcher(), SIGKILL);
  job.wait();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(wait_for([&] { return job.ranks().empty(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_P(Launchers, AProcessMayJoinItsJobAgain) {
  // One process joins, leaves and joins again; see JoinTwice below.
  const Ran ran = run("env -u GTEST_OUTPUT " + GetParam().command + " -n 3 " + own_program() +
                      " --gtest_also_run_disabled_tests --gtest_filter=*JoinTwice");
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("joined twice as rank 2 of 3"));
}

INSTANTIATE_TEST_SUITE_P(Families, Launchers,
                         ::testing::Values(Launcher{"OpenMpi", "mpirun.openmpi --oversubscribe"},
                                           Launcher{"Mpich", "mpiexec.mpich"},
                                           Launcher{"MpichByPort", "mpiexec.mpich -pmi-port"}),
                         [](const auto& info) { return info.param.name; });

/// Not a test by itself: what the ranks of AProcessMayJoinItsJobAgain run.
TEST(DISABLED_UnderLauncher, JoinTwice) {
  for (int i = 0; i < 2; ++i) {
    ibcoll_context* context = nullptr;
    ASSERT_EQ(ibcoll_init(&context), IBCOLL_OK) << ibcoll_last_error();
    ASSERT_EQ(ibcoll_barrier(ibcoll_world(context), nullptr), IBCOLL_OK) << ibcoll_last_error();
    if (i == 1)
      std::printf("joined twice as rank %d of %d\n", ibcoll_rank(context), ibcoll_size(context));
    ASSERT_EQ(ibcoll_finalize(context), IBCOLL_OK) << ibcoll_last_error();
  }
}

TEST(WithoutLauncher, AJobThatCanNotBeJoinedIsRefused) {
  // What srun leaves in the environment when it offers no PMI.
  const Ran ran = run("env SLURM_STEP_NUM_TASKS=4 " + kTool + " --iterations 1");
  EXPECT_NE(ran.status, 0);
  EXPECT_THAT(ran.out, HasSubstr("--mpi=pmi2"));
  const Ran alone = run("env SLURM_STEP_NUM_TASKS=4 IBCOLL_BOOTSTRAP=alone " + kTool +
                        " --sizes 64 --iterations 1 --batch 1us --json -");
  EXPECT_EQ(alone.status, 0) << alone.out;
}

}  // namespace
