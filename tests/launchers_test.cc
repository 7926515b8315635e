// ib_a2a_bench under the launchers of MPI libraries, as a user starts it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using ::testing::HasSubstr;

const std::string kTool = IBCOLL_BIN_DIR "/ib_a2a_bench";

struct Launcher {
  std::string name, command;
};
void PrintTo(const Launcher& launcher, std::ostream* stream) { *stream << launcher.name; }

struct Ran {
  int status = -1;
  std::string text;  ///< both streams
};

Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = popen(("timeout 60 " + command + " 2>&1").c_str(), "r");
  std::array<char, 4096> chunk{};
  for (size_t got; (got = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    ran.text.append(chunk.data(), got);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

/// The ids of processes that run our tool with `mark` in the command line.
std::vector<pid_t> ranks_with(const std::string& mark) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (line.rfind(kTool, 0) == 0 && line.find(mark) != std::string::npos)
      found.push_back(std::atoi(entry.path().filename().c_str()));
  }
  return found;
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
  const Ran ran = run(start(4, "--sizes 1K --iterations 2 --batch 1us --check --json -"));
  ASSERT_EQ(ran.status, 0) << ran.text;
  const auto row = nlohmann::json::parse(ran.text);  // one line: rank 0 alone writes
  EXPECT_EQ(row["ranks"], 4);
  EXPECT_EQ(row["servers"], 1);
  EXPECT_EQ(row["transport"], "none");
  EXPECT_EQ(row["checked"], true);
}

TEST_P(Launchers, RunEmulatedServersOfUnequalSize) {
  const Ran ran = run(start(6,
                            "--layout 3,1,2 --transport auto --algorithm two_level_ring --sizes 4K "
                            "--iterations 2 --batch 1us --check --json -"));
  ASSERT_EQ(ran.status, 0) << ran.text;
  const auto row = nlohmann::json::parse(ran.text);
  EXPECT_EQ(row["layout"], "3,1,2");
  EXPECT_EQ(row["transport"], "loopback");
  EXPECT_EQ(row["net_messages_per_rank"], 5);  // the lone rank of server 1 to all others
}

TEST_P(Launchers, BadInputIsRefusedOnce) {
  const Ran ran = run(start(3, "--ranks 2"));
  EXPECT_NE(ran.status, 0);
  const std::string line = "ib_a2a_bench: --ranks 2, but the launcher has started 3";
  EXPECT_THAT(ran.text, HasSubstr(line));
  EXPECT_EQ(ran.text.find(line, ran.text.find(line) + 1), std::string::npos) << ran.text;
}

TEST_P(Launchers, AKilledRankEndsTheJobAndLeavesNothing) {
  const std::string mark = std::to_string(900'000 + getpid() % 100'000);
  const std::string command = start(4, "--servers 2 --sizes 64K --iterations " + mark);
  const pid_t child = fork();
  if (child == 0) {
    if (freopen("/dev/null", "w", stdout) == nullptr ||
        freopen("/dev/null", "w", stderr) == nullptr)
      _exit(3);
    execl("/bin/sh", "sh", "-c", ("exec timeout 60 " + command).c_str(), nullptr);
    _exit(3);
  }
  const auto wait_for = [&](auto condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    while (!condition() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return condition();
  };
  EXPECT_TRUE(wait_for([&] { return ranks_with(mark).size() == 4; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::vector<pid_t> ranks = ranks_with(mark);
  if (ranks.size() == 4) kill(ranks[2], SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_FALSE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 124))
      << status;
  EXPECT_TRUE(wait_for([&] { return ranks_with(mark).empty(); }));
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find("ibcoll"), std::string::npos) << entry.path();
}

INSTANTIATE_TEST_SUITE_P(Families, Launchers,
                         ::testing::Values(Launcher{"OpenMpi", "mpirun.openmpi --oversubscribe"},
                                           Launcher{"Mpich", "mpiexec.mpich"},
                                           Launcher{"MpichByPort", "mpiexec.mpich -pmi-port"}),
                         [](const auto& info) { return info.param.name; });

TEST(WithoutLauncher, AJobThatCanNotBeJoinedIsRefused) {
  // What srun leaves in the environment when it offers no PMI.
  const Ran ran = run("env SLURM_STEP_NUM_TASKS=4 " + kTool + " --iterations 1");
  EXPECT_NE(ran.status, 0);
  EXPECT_THAT(ran.text, HasSubstr("--mpi=pmi2"));
  const Ran alone = run("env SLURM_STEP_NUM_TASKS=4 IBCOLL_BOOTSTRAP=alone " + kTool +
                        " --sizes 64 --iterations 1 --batch 1us --json -");
  EXPECT_EQ(alone.status, 0) << alone.text;
}

}  // namespace
