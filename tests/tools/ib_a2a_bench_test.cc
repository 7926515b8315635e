// Runs the tool as a user does.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/json.h"
#include "tests/command.h"
#include "tests/files.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using testing_tools::json_lines;
using testing_tools::processes_with;
using testing_tools::Ran;
using testing_tools::run_tool;

const std::string kBench = testing_tools::bin_dir() + "/ib_a2a_bench";

/// The tool with these arguments.
Ran run_bench(const std::string& arguments) { return run_tool("ib_a2a_bench", arguments); }

/// Refused before anything ran: status 2 (wrong usage) or 1.
void expect_bench_refused(const std::string& arguments, const std::string& why, int status = 2) {
  testing_tools::expect_refused("ib_a2a_bench", arguments, why, status);
}

TEST(IbA2aBench, RefusesBadInputWithOneLine) {
  expect_bench_refused("--sizes -4", "-4");
  expect_bench_refused("--sizes 1Q", "1Q");
  expect_bench_refused("--sizes 8E20", "8E20");
  expect_bench_refused("--sizes 1K,,2K", "''");
  expect_bench_refused("--sizes 4T --ranks 2", "limit");
  expect_bench_refused("--sizes 100G --ranks 8", "not enough memory", 1);
  expect_bench_refused("--ranks 0", "0");
  expect_bench_refused("--ranks -3", "-3");
  expect_bench_refused("--ranks 1000000000", "1000000000");
  expect_bench_refused("--ranks 2 --servers 3", "3");
  expect_bench_refused("--layout 2,x", "x");
  expect_bench_refused("--layout 3,1,2 --ranks 7", "7");
  expect_bench_refused("--placement diagonal", "diagonal");
  expect_bench_refused("--algorithm rnig", "two_level_ring");
  expect_bench_refused("--pacing later --algorithm two_level_ring", "later");
  expect_bench_refused("--collective gossip", "gossip");
  expect_bench_refused("--collective neighbor_alltoall --ranks 4",
                       "neighbor_alltoall needs --graph");
  expect_bench_refused("--collective neighbor_alltoall --ranks 4 --graph grid:3x2", "4 ranks");
  expect_bench_refused("--ranks 4 --graph ring:1", "alltoall has no --graph");
  expect_bench_refused(
      "--collective neighbor_alltoall --ranks 4 --graph ring:1 --sizes 8 --timeline x",
      "holds no --graph");
  expect_bench_refused("--iterations 0", "iterations");
  expect_bench_refused("--batch 1y", "1y");
  expect_bench_refused("--json /no/such/folder/x.json", "/no/such/folder/x.json", 1);
  expect_bench_refused("--plot /no/such/folder/x.svg", "/no/such/folder/x.svg", 1);
  expect_bench_refused("--timeline /no/such/folder/x.jsonl --sizes 1K", "/no/such/folder/x.jsonl",
                       1);
  expect_bench_refused("--timeline x.jsonl --sizes 1K,2K", "one algorithm at one size");
  expect_bench_refused("--timeline x.jsonl --ranks 300 --sizes 8", "256");
  expect_bench_refused("--frobnicate", "frobnicate");
}

/// As in every tool, whoever reads them: what starts the ranks, or each rank.
TEST(IbA2aBench, SettingsThatCantBeReadAreWrongUsage) {
  for (const char* name : {"IBCOLL_BIND", "IBCOLL_LAYOUT", "IBCOLL_HEAP", "IBCOLL_TRANSPORT"}) {
    setenv(name, "sideways", 1);
    expect_bench_refused("--iterations 1 --sizes 1K", "sideways");
    unsetenv(name);
  }
}

TEST(IbA2aBench, MeasuresAndChecksEveryCollectiveOnUnequalServers) {
  for (const std::string collective : {"alltoall", "alltoallv", "allgather", "barrier"}) {
    const Ran ran =
        run_bench("--layout 3,1,2 --collective " + collective +
                  " --algorithm all --sizes 0,7,1K --iterations 3 --batch 10us --check --json -");
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto rows = json_lines(ran.out);
    ASSERT_FALSE(rows.empty());
    for (const auto& row : rows) {
      SCOPED_TRACE(row.dump());
      EXPECT_EQ(row["collective"], collective);
      EXPECT_EQ(row["ranks"], 6);
      EXPECT_EQ(row["servers"], 3);
      EXPECT_EQ(row["checked"], true);
      EXPECT_GT(row["min_us"], 0);
    }
  }
}

TEST(IbA2aBench, NeighboursExchangeOnAGraph) {
  for (const std::string collective :
       {"neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv"}) {
    const Ran ran = run_bench("--layout 3,1,2 --graph random:4:7 --collective " + collective +
                              " --algorithm all --sizes 0,7,1K --iterations 3 --batch 10us --check "
                              "--json -");
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto rows = json_lines(ran.out);
    EXPECT_EQ(rows.size(), 6u);
    for (const auto& row : rows) EXPECT_EQ(row["checked"], true) << row.dump();
  }
}

TEST(IbA2aBench, TheEnvironmentsServersCount) {
  const auto servers = [](const char* name, const char* value, const std::string& arguments) {
    setenv(name, value, 1);
    const Ran ran = run_bench(arguments + " --sizes 64 --iterations 1 --batch 1us --json -");
    unsetenv(name);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return json_lines(ran.out).at(0)["servers"].get<int>();
  };
  EXPECT_EQ(servers("IBCOLL_SERVERS", "2", "--ranks 4"), 2);
  EXPECT_EQ(servers("IBCOLL_LAYOUT", "2,1,1", ""), 3);
  EXPECT_EQ(servers("IBCOLL_SERVERS", "2", "--ranks 4 --servers 4"), 4);
}

TEST(IbA2aBench, CountsWhatGoesBetweenServers) {
  const Ran ran = run_bench(
      "--layout 4x2 --algorithm two_level_ring,aggregate --sizes 4K --iterations 4 --json -");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto rows = json_lines(ran.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["algorithm"], "two_level_ring");
  EXPECT_EQ(rows[0]["net_messages_per_rank"], 6);  // (Ns-1) * n
  EXPECT_EQ(rows[1]["algorithm"], "aggregate");
  EXPECT_EQ(rows[1]["net_messages_per_rank"], 3);  // Ns-1
  for (const auto& row : rows) {
    EXPECT_EQ(row["net_bytes_per_rank"], 6 * 4096);
    const double out_bytes = 4096.0 * (8 - 2) * 2;  // of a server
    EXPECT_NEAR(row["a2a_bandwidth_MBps"].get<double>() * row["median_us"].get<double>(), out_bytes,
                1e-6 * out_bytes);
  }
}

TEST(IbA2aBench, CountsConnectionsWhicheverRankSends) {
  const auto connections = [](const std::string& options) {
    const Ran ran = run_bench(options + " --sizes 64K --iterations 3 --json -");
    EXPECT_EQ(ran.status, 0) << ran.err;
    const auto rows = json_lines(ran.out);
    return rows.empty() ? -1 : rows.back()["net_queue_pairs_per_rank"].get<int>();
  };
  EXPECT_EQ(connections("--layout 3,1,2 --algorithm linear"), 5);  // of the rank that is alone
  EXPECT_EQ(connections("--layout 4x2 --algorithm aggregate"), 3);
  EXPECT_EQ(connections("--layout 4x2 --algorithm aggregate,linear"), 6);
  // The root of a gather sends nothing but exposures, and that of a bcast gets nothing else.
  EXPECT_EQ(connections("--layout 4x1 --collective gather --algorithm linear"), 3);
  EXPECT_EQ(connections("--layout 4x1 --collective bcast --algorithm linear"), 3);
  EXPECT_EQ(connections("--layout 1x3 --algorithm linear"), 0);
}

TEST(IbA2aBench, CountsOneMessageAPairOfServersOfNeighbours) {
  const Ran ran = run_bench(
      "--layout 4x2 --collective neighbor_alltoall --graph ring:3 --algorithm direct,aggregated "
      "--sizes 64 --iterations 4 --json -");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto rows = json_lines(ran.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["net_messages_per_rank"], 5);
  EXPECT_EQ(rows[1]["net_messages_per_rank"], 2);  // of three of its server
}

TEST(IbA2aBench, ATimelineIsDrawnBesideThePlan) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("ib_timeline_test." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string recorded = folder / "call.jsonl", picture = folder / "call.svg";
  const Ran ran = run_bench("--layout 2,1 --algorithm two_level_ring --pacing gate --sizes 4K " +
                            std::string("--iterations 2 --timeline ") + recorded);
  EXPECT_EQ(ran.status, 0) << ran.err;
  const std::string draw = testing_tools::bin_dir() + "/ib_sched draw --recorded " + recorded;
  EXPECT_EQ(std::system((draw + " --output " + picture).c_str()), 0);
  const std::string svg = testing_tools::content_of(picture);
  EXPECT_NE(svg.find("planned: alltoall two_level_ring, 2,1, pacing gate"), std::string::npos);
  EXPECT_NE(svg.find("recorded: 4K a block, loopback between servers"), std::string::npos);
  EXPECT_NE(std::system((draw + " --layout 2,1 --output x.svg 2>/dev/null").c_str()), 0);
  std::filesystem::remove_all(folder);
}

TEST(IbA2aBench, OneServerHasNoAlltoallBandwidthButATotal) {
  const Ran ran = run_bench("--ranks 3 --sizes 64K --iterations 3 --user-memory --check --json -");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto rows = json_lines(ran.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["a2a_bandwidth_MBps"], 0);
  EXPECT_GT(rows[0]["total_MBps"], 0);
  EXPECT_GT(rows[0]["copy_bandwidth_fraction"], 0);
  EXPECT_EQ(rows[0]["net_messages_per_rank"], 0);
  EXPECT_EQ(rows[0]["transport"], "none");
}

TEST(IbA2aBench, AnInterruptLeavesNothingBehind) {
  // A number of iterations that nothing else has marks our processes.
  const std::string mark = std::to_string(980'000 + getpid() % 10'000);
  const pid_t child = fork();
  if (child == 0) {
    if (freopen("/dev/null", "w", stdout) == nullptr ||
        freopen("/dev/null", "w", stderr) == nullptr)
      _exit(3);
    execl(kBench.c_str(), kBench.c_str(), "--ranks", "4", "--iterations", mark.c_str(), nullptr);
    _exit(3);
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (processes_with(mark, kBench).size() < 5 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(processes_with(mark, kBench).size(), 5u) << "the tool and its ranks";
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT) << status;
  EXPECT_TRUE(processes_with(mark, kBench).empty());
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find("ibcoll"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace ibcoll
