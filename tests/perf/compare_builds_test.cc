// perf/compare_builds.py, on builds whose benchmarks say what the test wants.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;

/// A folder with an ib_a2a_bench that prints one figure a run: those of a list, again and again.
std::string build_with(const std::string& name, const std::string& figures) {
  const std::string path = (folder() / name).string();
  std::filesystem::create_directories(path);
  const std::string tool = file(name + "/ib_a2a_bench", fmt::format(R"(#!/bin/bash
figures=({})
runs=$(cat "{}/runs" 2>/dev/null || echo 0)
echo $((runs + 1)) >"{}/runs"
echo "{{\"algorithm\": \"auto\", \"bytes_per_pair\": 8, \"median_us\": ${{figures[runs % ${{#figures[@]}}]}}}}"
)",
                                                                    figures, path, path));
  std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
  return path;
}

Ran compare(const std::string& before, const std::string& after, const std::string& more = {}) {
  return run_shell(fmt::format(
      "python3 -B {}/perf/compare_builds.py {} {} --only 'barrier 2 ranks,' --json - {}",
      source_dir(), before, after, more));
}

class CompareBuilds : public ::testing::Test {
 protected:
  void SetUp() override {
    if (run_shell("python3 --version").status != 0) GTEST_SKIP() << "python3 is not installed";
  }
};

TEST_F(CompareBuilds, CallsSlowerWhatIsSoInAllRoundsTwice) {
  const Ran ran = compare(build_with("quick", "1.0 1.1 1.05"), build_with("slow", "1.3 1.2 1.25"));
  EXPECT_EQ(ran.status, 1) << ran.err;
  const auto rows = json_lines(ran.out);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("benchmark"), "barrier 2 ranks, private");
  EXPECT_EQ(rows[0].at("figure"), "8");
  EXPECT_EQ(rows[0].at("verdict"), "slower");
  EXPECT_NEAR(rows[0].at("ratio").get<double>(), 1.25 / 1.05, 1e-9);
  EXPECT_NEAR(rows[0].at("least_ratio").get<double>(), 1.2 / 1.1, 1e-9);
  EXPECT_NEAR(rows[0].at("greatest_ratio").get<double>(), 1.3 / 1.0, 1e-9);
  EXPECT_NE(ran.err.find("0 same, 0 faster, 1 slower"), std::string::npos) << ran.err;
}

TEST_F(CompareBuilds, CallsFasterWhatIsSo) {
  const Ran ran = compare(build_with("old", "1.3 1.2"), build_with("new", "1.0 1.1"));
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(json_lines(ran.out).at(0).at("verdict"), "faster");
}

TEST_F(CompareBuilds, CallsTheSameWhatOverlaps) {
  const Ran ran = compare(build_with("steady", "1.0"), build_with("noisy", "1.3 1.2 1.0"));
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(json_lines(ran.out).at(0).at("verdict"), "same");
}

/// Slower in the seven rounds, not in the 21 that follow.
TEST_F(CompareBuilds, MeasuresAgainBeforeItCallsSomethingSlower) {
  const Ran ran =
      compare(build_with("first", "1.0"), build_with(
                                              "second", "1.2 1.2 1.2 1.2 1.2 1.2 1.2" + [] {
                                                std::string then;
                                                for (int i = 0; i < 21; ++i) then += " 1.0";
                                                return then;
                                              }()));
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(json_lines(ran.out).at(0).at("verdict"), "same");
  EXPECT_NEAR(json_lines(ran.out).at(0).at("ratio").get<double>(), 1.0, 1e-9);
}

TEST_F(CompareBuilds, RefusesWhatItCannotCompare) {
  const std::string build = build_with("build", "1.0");
  const std::string nowhere = (folder() / "nowhere").string();
  EXPECT_EQ(compare(build, nowhere).status, 2);
  EXPECT_NE(compare(build, nowhere).err.find("nowhere is no folder"), std::string::npos);
  EXPECT_EQ(compare(build, build, "--rounds 2").status, 2);
  EXPECT_EQ(compare(build, build, "--only nothing").status, 2);
  const Ran garbled = compare(build, build_with("garbled", "x"));
  EXPECT_EQ(garbled.status, 1);
  EXPECT_NE(garbled.err.find("is not understood"), std::string::npos) << garbled.err;
  std::filesystem::create_directories(folder() / "empty");
  const Ran empty = compare(build, (folder() / "empty").string());
  EXPECT_EQ(empty.status, 1);
  EXPECT_NE(empty.err.find("no figure in common"), std::string::npos) << empty.err;
}

}  // namespace
}  // namespace ibcoll
