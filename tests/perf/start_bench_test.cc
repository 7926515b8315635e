// start_bench as its users call it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;

nlohmann::json started(const std::string& arguments) {
  const Ran ran = run_tool("start_bench", arguments + " --runs 1 --json -");
  EXPECT_EQ(ran.status, 0) << ran.err;
  return nlohmann::json::parse(ran.out);
}

TEST(StartBench, SaysHowLongEachPhaseTakes) {
  const nlohmann::json job = started("--ranks 4 --servers 2");
  EXPECT_EQ(job["ranks"], 4);
  EXPECT_EQ(job["servers"], 2);
  EXPECT_EQ(job["launcher"], "fork");
  double longest = 0;
  for (const char* const phase : {"meet", "places", "memory", "network", "world", "barrier"}) {
    EXPECT_GT(job["phases_us"][phase].get<double>(), 0) << phase;
    longest = std::max(longest, job["phases_us"][phase].get<double>());
  }
  EXPECT_EQ(job["phases_us"].size(), 6u);
  EXPECT_GE(job["start_us"].get<double>(), longest);
  EXPECT_GT(job["bare_us"].get<double>(), 0);
  EXPECT_GT(job["end_us"].get<double>(), 0);
  EXPECT_GT(job["files_open"].get<int>(), 3) << "besides the three that every process has";
  EXPECT_EQ(job["root_bytes"], 0) << "there is one machine";
}

// One process a machine watches all ranks, and not each rank all others.
TEST(StartBench, RanksHoldNoFileForEachOther) {
  const auto files = [](const std::string& ranks) {
    return started("--ranks " + ranks)["files_open"].get<int>();
  };
  EXPECT_EQ(files("2"), files("12"));
}

TEST(StartBench, WrongUsageIsRefused) {
  expect_refused("start_bench", "--ranks 3 --servers 2", "3 ranks");
  expect_refused("start_bench", "--ranks 0", "the number of ranks");
  expect_refused("start_bench", "--launcher srun", "--launcher");
}

}  // namespace
}  // namespace ibcoll
