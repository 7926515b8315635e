// Runs the tool as a user does; and the sets that it draws.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "studies/measure/multicast_sets.h"
#include "tests/files.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using measure::draw_set;
using measure::SetDraw;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing_tools::json_lines;
using testing_tools::Ran;

/// The tool with these arguments; one that hangs is ended.
Ran run_mcast_bench(const std::string& arguments) {
  return testing_tools::run_shell("timeout 120 " + testing_tools::bin_dir() + "/ib_mcast_bench " +
                                  arguments);
}

void expect_mcast_refused(const std::string& arguments, const std::string& why, int status = 2) {
  testing_tools::expect_refused("ib_mcast_bench", arguments, why, status);
}

TEST(MulticastSets, AreTheSameForTheSameSeedOnly) {
  const SetDraw draw{7, 40, 3, 20};
  EXPECT_EQ(draw_set(draw, 2, 5), draw_set(draw, 2, 5));
  EXPECT_NE(draw_set(draw, 2, 5), draw_set(draw, 2, 6));
  EXPECT_NE(draw_set(draw, 2, 5), draw_set(draw, 3, 5));
  EXPECT_NE(draw_set(draw, 2, 5), draw_set({8, 40, 3, 20}, 2, 5));
}

TEST(MulticastSets, LeaveARankOutForAllMastersButTheFirst) {
  const SetDraw draw{.seed = 3, .ranks = 4, .least = 1, .most = 3, .left_out = 3};
  int with = 0;
  for (uint64_t number = 0; number < 50; ++number) {
    const std::vector<int> first = draw_set(draw, 0, number), second = draw_set(draw, 1, number);
    with += std::binary_search(first.begin(), first.end(), 3) ? 1 : 0;
    EXPECT_FALSE(std::binary_search(second.begin(), second.end(), 3));
    EXPECT_LE(second.size(), 2u);
  }
  EXPECT_GT(with, 0);
}

TEST(MulticastSets, HaveMembersOfAllNumbersAndRanks) {
  const SetDraw draw{1, 6, 2, 4};
  std::map<size_t, int> sizes;
  std::map<int, int> ranks;
  for (uint64_t number = 0; number < 600; ++number) {
    const std::vector<int> members = draw_set(draw, 1, number);
    EXPECT_TRUE(std::is_sorted(members.begin(), members.end()));
    EXPECT_THAT(std::set<int>(members.begin(), members.end()), SizeIs(members.size()));
    ++sizes[members.size()];
    for (const int rank : members) ++ranks[rank];
  }
  const auto seldom_or_often = [](const auto& counts, int expected) {
    return std::count_if(counts.begin(), counts.end(), [expected](const auto& one) {
      return one.second < expected * 3 / 4 || one.second > expected * 5 / 4;
    });
  };
  EXPECT_THAT(sizes, SizeIs(3));
  EXPECT_EQ(seldom_or_often(sizes, 200), 0);
  EXPECT_THAT(ranks, SizeIs(5));
  EXPECT_EQ(ranks.count(1), 0u) << "the master";
  EXPECT_EQ(seldom_or_often(ranks, 600 * 3 / 5), 0);
}

TEST(IbMcastBench, RefusesBadInputWithOneLine) {
  expect_mcast_refused("--sizes -4", "-4");
  expect_mcast_refused("--sizes 1Q", "1Q");
  expect_mcast_refused("--sizes 4T", "limit");
  expect_mcast_refused("--sizes 100G", "not enough memory", 1);
  expect_mcast_refused("--ranks 0", "0");
  expect_mcast_refused("--ranks 1", "a master and a member");
  expect_mcast_refused("--ranks 1000000000", "1000000000");
  expect_mcast_refused("--ranks 2 --servers 3", "3");
  expect_mcast_refused("--layout 2,x", "x");
  expect_mcast_refused("--layout 3,1,2 --ranks 7", "7");
  expect_mcast_refused("--placement diagonal", "diagonal");
  expect_mcast_refused("--algorithm rnig", "scatter_doubling");
  expect_mcast_refused("--members 4", "1 to 3, not 4");
  expect_mcast_refused("--members 0", "not 0");
  expect_mcast_refused("--members 3-2", "3 is more than 2");
  expect_mcast_refused("--members 1-2-3", "FEWEST-MOST");
  expect_mcast_refused("--members few", "few");
  expect_mcast_refused("--masters 5", "there are 4 ranks");
  expect_mcast_refused("--masters 0", "masters");
  expect_mcast_refused("--sets 0", "sets");
  expect_mcast_refused("--window 0", "window");
  expect_mcast_refused("--slow 0", "no master, 1 to 3");
  expect_mcast_refused("--slow 4", "no master, 1 to 3");
  expect_mcast_refused("--transport loopback", "all ranks are on one");
  expect_mcast_refused("--transport carrier-pigeon", "carrier-pigeon");
  expect_mcast_refused("--json /no/such/folder/x.json", "/no/such/folder/x.json", 1);
  expect_mcast_refused("--plot /no/such/folder/x.svg", "/no/such/folder/x.svg", 1);
  expect_mcast_refused("--frobnicate", "frobnicate");
}

/// As in every tool, whoever reads them: what starts the ranks, or each rank.
TEST(IbMcastBench, SettingsThatCantBeReadAreWrongUsage) {
  for (const char* name : {"IBCOLL_LAYOUT", "IBCOLL_SERVERS", "IBCOLL_HEAP", "IBCOLL_TRANSPORT"}) {
    setenv(name, "sideways", 1);
    expect_mcast_refused("--sets 1 --sizes 8", "sideways");
    unsetenv(name);
  }
}

/// What holds of every row.
void expect_right(const nlohmann::json& row) {
  SCOPED_TRACE(row.dump());
  EXPECT_EQ(row["non_member_messages"], 0);
  EXPECT_GT(row["min_us"], 0);
  EXPECT_GT(row["master_us"], 0);
  EXPECT_GT(row["multicasts_per_second"], 0);
  EXPECT_GT(row["messages_per_member"], 0);
  EXPECT_GE(row["members"], row["members_least"]);
  EXPECT_LE(row["members"], row["members_most"]);
  EXPECT_GT(row["setup_us"], 0);
}

TEST(IbMcastBench, MeasuresAndChecksOnOneServer) {
  const Ran ran =
      run_mcast_bench("--ranks 4 --masters 2 --sizes 0,7,1K,80K --sets 12 --check --json -");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto rows = json_lines(ran.out);
  ASSERT_THAT(rows, SizeIs(4));
  std::vector<int> bytes;
  for (const auto& row : rows) {
    expect_right(row);
    bytes.push_back(row["bytes"]);
    EXPECT_EQ(row["algorithm"], "auto");
    EXPECT_EQ(row["ranks"], 4);
    EXPECT_EQ(row["servers"], 1);
    EXPECT_EQ(row["masters"], 2);
    EXPECT_EQ(row["sets"], 12);
    EXPECT_EQ(row["transport"], "none");
    EXPECT_EQ(row["queue_pairs"], 0);
    EXPECT_TRUE(row["bytes_per_port"].is_null());
    EXPECT_TRUE(row["first_us"].is_null());
    EXPECT_EQ(row["checked"], true);
  }
  EXPECT_THAT(bytes, ElementsAre(0, 7, 1024, 80 * 1024));
}

TEST(IbMcastBench, MeasuresAndChecksOnUnequalServers) {
  for (const std::string layout : {"3,1,2", "2,2 --placement cyclic"}) {
    const Ran ran =
        run_mcast_bench("--layout " + layout +
                        " --masters 2 --window 3 --repeat --algorithm auto,binomial,chain "
                        "--sizes 8,300K --sets 8 --seed 5 --check --json -");
    ASSERT_EQ(ran.status, 0) << layout << ran.err;
    const auto rows = json_lines(ran.out);
    ASSERT_THAT(rows, SizeIs(6));
    std::vector<std::string> algorithms;
    for (const auto& row : rows) {
      expect_right(row);
      algorithms.push_back(row["algorithm"]);
      EXPECT_EQ(row["transport"], "loopback");
      EXPECT_EQ(row["seed"], 5);
      EXPECT_EQ(row["window"], 3);
      EXPECT_GT(row["first_us"], 0);
      EXPECT_GT(row["repeat_us"], 0);
      EXPECT_GT(row["queue_pairs"], 0);
      // Sets are the same at each size and with each algorithm.
      EXPECT_EQ(row["members"], rows[0]["members"]);
      const bool is_long = row["bytes"] == 300 * 1024;
      EXPECT_TRUE(!is_long || row["bytes_per_port"] >= 1) << row.dump();
    }
    EXPECT_THAT(algorithms, ElementsAre("auto", "binomial", "chain", "auto", "binomial", "chain"));
  }
}

/// Calls of one master's multicasts are not taken for those of another's.
TEST(IbMcastBench, ManyMastersAtATimeAreKeptApart) {
  for (const std::string layout : {"4", "4x1"}) {
    const Ran ran = run_mcast_bench(
        "--layout " + layout + " --masters 4 --window 4 --sizes 80K --sets 50 --check --json -");
    ASSERT_EQ(ran.status, 0) << layout << ran.err;
    for (const auto& row : json_lines(ran.out)) expect_right(row);
  }
}

TEST(IbMcastBench, SetsHaveAsManyMembersAsWasAsked) {
  const Ran ran = run_mcast_bench("--ranks 6 --members 3 --sizes 8 --sets 5 --json -");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto rows = json_lines(ran.out);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0]["members"], 3);
  EXPECT_EQ(rows[0]["checked"], false);
}

TEST(IbMcastBench, AStoppedRankIsReportedApart) {
  const Ran ran =
      run_mcast_bench("--ranks 4 --slow 3 --sizes 1K --sets 40 --window 2 --check --json -");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto rows = json_lines(ran.out);
  ASSERT_THAT(rows, SizeIs(1));
  expect_right(rows[0]);
  EXPECT_EQ(rows[0]["slow_rank"], 3);
  // It stands for three seconds, in which the others get what is for them alone.
  EXPECT_GE(rows[0]["max_us"], 2e6);
  EXPECT_GT(rows[0]["others"], 0);
  EXPECT_GT(rows[0]["others_before_us"], 0);
  EXPECT_LT(rows[0]["others_max_us"], rows[0]["max_us"]);
}

TEST(IbMcastBench, OtherMastersLeaveTheStoppedRankOut) {
  const Ran ran =
      run_mcast_bench("--ranks 4 --masters 2 --slow 3 --sizes 1K --sets 40 --check --json -");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto rows = json_lines(ran.out);
  ASSERT_THAT(rows, SizeIs(1));
  expect_right(rows[0]);
  // What they send in the second half is through before it goes on.
  EXPECT_GT(rows[0]["other_masters"], 0);
  EXPECT_GT(rows[0]["other_masters_before_us"], 0);
  expect_mcast_refused("--ranks 4 --masters 2 --slow 3 --members 3", "leave out rank 3");
}

TEST(IbMcastBench, ComparesEachTimeWithItsBound) {
  const auto rows_with = [](const std::string& hop_ns) {
    const std::string path =
        ::testing::TempDir() + "mcast_costs_" + hop_ns + "." + std::to_string(getpid());
    std::ofstream(path) << R"({"layer":"shm","bytes":8,"hop_p99_ns":)" << hop_ns
                        << R"(,"hop_max_ns":)" << hop_ns
                        << R"(,"gap_p99_ns":0,"wake_p99_ns":0,"operation_p99_ns":0,)"
                        << R"("ranks_per_core":100})" << '\n';
    setenv("IBCOLL_LOGP", path.c_str(), 1);
    const Ran ran = run_mcast_bench("--ranks 3 --sizes 8,80K --sets 10 --json -");
    unsetenv("IBCOLL_LOGP");
    std::filesystem::remove(path);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return json_lines(ran.out);
  };
  // A message that takes an hour, and one that takes nothing.
  for (const auto& row : rows_with("3600000000000")) {
    EXPECT_GT(row["bound_us"], 3.6e9);
    EXPECT_EQ(row["bound_kept"], 1.0);
  }
  for (const auto& row : rows_with("0.001")) {
    EXPECT_LT(row["bound_us"], 1);
    EXPECT_EQ(row["bound_kept"], 0.0);
  }
}

TEST(IbMcastBench, ShowsATableAndDrawsAPicture) {
  const std::string picture = testing_tools::folder() / "mcast.svg";
  const Ran ran = run_mcast_bench("--layout 2x2 --sizes 8,1K --sets 4 --plot " + picture);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("multicasts to 1-3 of 4 ranks on 2 servers (2x2)"));
  EXPECT_THAT(ran.out, HasSubstr("master us"));
  EXPECT_THAT(testing_tools::content_of(picture), HasSubstr("multicast to 1-3 of 4 ranks"));
}

}  // namespace
}  // namespace ibcoll
