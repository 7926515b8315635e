// What all tools do alike: how they fail when their output has no place, their input no end, or
// their arguments no sense.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "engine/base/json.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;
using ::testing::HasSubstr;
using ::testing::Not;

struct Call {
  std::string tool, arguments;
};

/// A short call of every tool that prints to standard output.
const std::vector<Call>& calls() {
  static const std::vector<Call> all = {
      {"ib_a2a_bench", "--ranks 2 --sizes 64 --iterations 1 --batch 1us"},
      {"ib_info", ""},
      {"ib_logp", "--sizes 8 --rounds 10 --threads"},
      {"ib_logp", "--calls --ranks 2 --sizes 8 --rounds 10"},
      {"ib_map", "--network torus:2x2 --pattern stencil:2x2 --method xyz"},
      {"ib_plan", "--network single-switch:3"},
      {"ib_sched", "show --algorithm ring --ranks 3"},
      {"ib_sched", "verify --algorithm ring --ranks 3"},
      {"ib_sim", "--layout 2x1 --sizes 1K --algorithm ring"},
      {"ib_taskgraph", "schedule --graph lu:4 --processors 2"},
      {"ib_topo", "info single-switch:3"},
      {"ib_tune", "--ranks 2 --collectives barrier --rounds 3 --batch 1us"},
      {"ib_tune", "--simulate --layout 2x1 --network single-switch:2 --collectives barrier"},
      {"ib_topo", "convert single-switch:3"},
      {"ib_sim", "--help"},
      {"ib_info", "--help"},
  };
  return all;
}

std::string name_of(const Call& call) { return call.tool + " " + call.arguments; }

void expect_one_line(const Ran& ran, const std::string& what) {
  EXPECT_THAT(ran.err, HasSubstr(what));
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
}

TEST(Tools, ResultsThatFindNoPlaceAreAFailure) {
  for (const Call& call : calls()) {
    SCOPED_TRACE(name_of(call));
    const Ran full = run_tool(call.tool, call.arguments + " >/dev/full");
    EXPECT_EQ(full.status, 1);
    expect_one_line(full, "can't write standard output: No space left on device");
    const Ran closed = run_tool(call.tool, call.arguments + " >&-");
    EXPECT_EQ(closed.status, 1);
    expect_one_line(closed, "can't write standard output: Bad file descriptor");
  }
}

TEST(Tools, AReaderThatGoesEndsThemQuietly) {
  std::array<int, 2> ends{};
  constexpr int kBroken = 9;  // one digit, for the shell
  ASSERT_EQ(pipe(ends.data()), 0);
  ASSERT_EQ(dup2(ends[1], kBroken), kBroken);
  close(ends[0]);
  close(ends[1]);
  for (const Call& call : calls()) {
    SCOPED_TRACE(name_of(call));
    const Ran ran = run_tool(call.tool, call.arguments + " >&9");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err, "");
  }
  close(kBroken);
}

TEST(Tools, FilesThatCannotBeWrittenAreAFailure) {
  for (const char* arguments :
       {"ib_a2a_bench --ranks 2 --sizes 64 --iterations 1 --batch 1us --json ",
        "ib_a2a_bench --ranks 2 --sizes 64 --iterations 1 --batch 1us --plot ",
        "ib_info --json ",
        "ib_logp --sizes 8 --rounds 10 --threads --json ",
        "ib_logp --calls --ranks 2 --sizes 8 --rounds 10 --json ",
        "ib_map --network torus:2x2 --pattern stencil:2x2 --method xyz --json ",
        "ib_map --network torus:2x2 --pattern stencil:2x2 --method xyz --plot ",
        "ib_plan --network single-switch:3 --json ",
        "ib_plan --network single-switch:3 --plot ",
        "ib_plan --network single-switch:3 --output ",
        "ib_sched show --algorithm ring --ranks 3 --json ",
        "ib_sched draw --algorithm ring --ranks 3 --output ",
        "ib_sim --layout 2x1 --sizes 1K --algorithm ring --json ",
        "ib_sim --layout 2x1 --sizes 1K --algorithm ring --plot ",
        "ib_taskgraph schedule --graph lu:4 --processors 2 --json ",
        "ib_taskgraph schedule --graph lu:4 --processors 2 --plot ",
        "ib_taskgraph schedule --graph lu:4 --processors 2 --output ",
        "ib_tune --ranks 2 --collectives barrier --rounds 3 --batch 1us --json ",
        "ib_tune --ranks 2 --collectives barrier --rounds 3 --batch 1us --out ",
        "ib_tune --simulate --layout 2x1 --network single-switch:2 --collectives barrier --out ",
        "ib_topo info single-switch:3 --json ",
        "ib_topo draw single-switch:3 --output "}) {
    const std::string text = arguments;
    const size_t space = text.find(' ');
    for (const char* place : {"/dev/full", "/nonexistent/file"}) {
      SCOPED_TRACE(text + place);
      const Ran ran = run_tool(text.substr(0, space), text.substr(space) + place);
      EXPECT_EQ(ran.status, 1);
      expect_one_line(ran, "can't write '" + std::string(place));
    }
  }
}

TEST(Tools, JsonGoesToStandardOutputWhereNoFileIsNamed) {
  for (const Call& call : calls()) {
    if (call.arguments == "--help" || call.arguments.starts_with("convert ")) continue;
    SCOPED_TRACE(name_of(call));
    const Ran ran = run_tool(call.tool, call.arguments + " --json");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_FALSE(json_lines(ran.out).empty());
  }
}

/// Calls that read a file: the name goes to the end.
const std::vector<Call>& readers() {
  static const std::vector<Call> all = {
      {"ib_topo", "info "},
      {"ib_topo", "info " + source_dir() + "/tests/data/fabrics/tree.topo,routes="},
      {"ib_sched", "verify --program "},
      {"ib_sched", "draw --output x.svg --recorded "},
      {"ib_map", "--network torus:2x2 --matrix "},
      {"ib_map", "--network torus:2x2 --pattern stencil:2x2 --hosts "},
      {"ib_plan", "--network "},
      {"ib_sim", "--layout 2x1 --network "},
      {"ib_taskgraph", "check --graph lu:4 "},
      {"ib_a2a_bench", "--network "},
  };
  return all;
}

TEST(Tools, InputThatIsNoFileIsRefused) {
  for (const Call& call : readers()) {
    for (const auto& [file, what] :
         {std::pair("/dev/zero", "it is a device"), std::pair("/tmp", "it is a directory")}) {
      SCOPED_TRACE(name_of(call) + file);
      const Ran ran = run_tool(call.tool, call.arguments + file);
      EXPECT_EQ(ran.status, 1);
      expect_one_line(ran, what);
    }
  }
}

TEST(Tools, BadContentIsAFailureAndNotWrongUsage) {
  const std::string bad = file("bad", "\x01 none of the formats\n");
  for (const Call& call : readers()) {
    SCOPED_TRACE(name_of(call));
    const Ran ran = run_tool(call.tool, call.arguments + bad);
    EXPECT_EQ(ran.status, 1);
    expect_one_line(ran, bad);
    EXPECT_THAT(ran.err, Not(HasSubstr("\x01")));
  }
}

TEST(Tools, PipesAreRead) {
  const std::string topo = source_dir() + "/tests/data/fabrics/tree.topo";
  EXPECT_EQ(run_tool("ib_topo", "info /dev/stdin <" + topo).status, 0);
  EXPECT_EQ(run_tool("ib_info", "--help >/dev/null; cat " + topo + " | " + bin_dir() +
                                    "/ib_topo info /dev/stdin")
                .status,
            0);
}

TEST(Tools, TheVersionOfAllIsTheOneThatTheChangelogHasLast) {
  std::string line, version;
  for (std::ifstream in(source_dir() + "/CHANGELOG.md"); version.empty() && std::getline(in, line);)
    if (line.starts_with("## [")) version = line.substr(4, line.find(']') - 4);
  ASSERT_NE(version, "");
  for (const char* tool : {"ib_a2a_bench", "ib_info", "ib_logp", "ib_map", "ib_plan", "ib_sched",
                           "ib_sim", "ib_taskgraph", "ib_topo", "ib_tune"}) {
    const Ran ran = run_tool(tool, "--version");
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.out, std::string(tool) + " (ibcoll) " + version + "\n");
    EXPECT_EQ(ran.err, "");
  }
}

TEST(Tools, UnknownCommandsAreNamed) {
  expect_refused("ib_topo", "inof single-switch:3", "unknown command 'inof': one of info, check");
  expect_refused("ib_sched", "verfy", "unknown command 'verfy': one of list, show, verify, draw");
  expect_refused("ib_taskgraph", "plan", "unknown command 'plan': one of schedule, check");
  expect_refused("ib_topo", "", "required");
}

TEST(Tools, ArgumentsAreRepeatedInPartAndWithoutControlCharacters) {
  const std::string words = "$(for i in $(seq 2000); do printf 'word%d ' $i; done)";
  const std::string letters = "$(printf 'x%.0s' $(seq 5000))";
  for (const Call& call : {Call{"ib_a2a_bench", "--sizes "},
                           {"ib_logp", "--sizes "},
                           {"ib_map", "--pattern stencil:2x2 --network "},
                           {"ib_plan", "--network "},
                           {"ib_sched", "verify --layout "},
                           {"ib_sim", "--algorithm "},
                           {"ib_taskgraph", "schedule --graph "},
                           {"ib_topo", "info "},
                           {"ib_tune", "--collectives "},
                           {"ib_topo", ""},
                           {"ib_info", "--"}}) {
    for (const std::string& argument : {words, letters}) {
      SCOPED_TRACE(name_of(call) + argument);
      const Ran ran = run_tool(call.tool, call.arguments + "\"" + argument + "\"");
      EXPECT_EQ(ran.status, 2);
      EXPECT_LT(ran.err.size(), 1000u);
      expect_one_line(ran, "...");
    }
    const Ran ran = run_tool(call.tool, call.arguments + "$'a\\e[31m\\r\\u009b\\x01b'");
    EXPECT_EQ(ran.status, 2);
    for (const char* control : {"\x1b", "\r", "\xc2\x9b", "\x01"})
      EXPECT_THAT(ran.err, Not(HasSubstr(control)));
    expect_one_line(ran, call.tool + ": ");
  }
}

TEST(Tools, RangesThatAreNoneAreExplained) {
  expect_refused("ib_sim", "--sizes 1K-", "size range '1K-' has no end");
  expect_refused("ib_sim", "--sizes 16-2", "size range '16-2' runs backwards");
  expect_refused("ib_taskgraph", "schedule --graph lu:4 --processors 16-2",
                 "range '16-2' runs backwards");
  expect_refused("ib_taskgraph", "schedule --graph lu:4 --processors 16-",
                 "range '16-' has no end");
}

TEST(Tools, WhatMessagesCostIsMeasuredInEveryLayerThereIs) {
  const Ran one =
      run_tool("ib_logp", "--calls --ranks 3 --sizes 8,4K --rounds 10 --servers 1 --json");
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(json_lines(one.out).size(), 2u) << "no second server";
  const Ran two = run_tool(
      "ib_logp", "--calls --ranks 5 --servers 3 --sizes 8 --rounds 10 --transport loopback --json");
  ASSERT_EQ(two.status, 0) << two.err;
  const auto lines = json_lines(two.out);
  ASSERT_EQ(lines.size(), 2u);
  for (const auto& [line, layer] : {std::pair(lines[0], "shm"), std::pair(lines[1], "network")}) {
    EXPECT_EQ(line["layer"], layer);
    EXPECT_EQ(line["pairs"], 2) << "of servers of 2, 2 and 1 ranks";
    EXPECT_EQ(line["servers"], 3);
    EXPECT_GT(line["hop_ns"], 0);
    EXPECT_GT(line["hop_p99_ns"], 0);
    EXPECT_GT(line["hop_max_ns"], 0);
    EXPECT_GT(line["operation_p99_ns"], 0);
    EXPECT_GT(line["ranks_per_core"], 0);
  }
  EXPECT_EQ(lines[1]["transport"], "loopback");
}

TEST(Tools, CostsOfMessagesThatCannotBeMeasuredAreRefused) {
  expect_refused("ib_logp", "--ranks 4", "--ranks and --servers are for --calls");
  expect_refused("ib_logp", "--calls --threads", "the ranks of --calls are processes");
  expect_refused("ib_logp", "--calls --ranks 1", "--ranks 1: at least 2");
  expect_refused("ib_logp", "--calls --ranks 2 --servers 3", "3");
  expect_refused("ib_logp", "--calls --rounds 5", "--rounds 5: must be 10 to 100000");
  expect_refused("ib_logp", "--calls --sizes 0", "message size 0: must be 1 to");
  expect_refused("ib_logp", "--calls --servers 1 --transport loopback",
                 "--transport loopback joins servers");
}

TEST(Tools, WarningsStayOutOfResultsAndObeyTheLogLevel) {
  const auto run = [](const std::string& settings) {
    return run_shell("IBCOLL_NO_SUCH_THING=1 " + settings + " " + bin_dir() +
                     "/ib_a2a_bench --ranks 2 --sizes 64 --iterations 1 --batch 1us --json -");
  };
  const Ran warned = run("");
  EXPECT_EQ(warned.status, 0);
  EXPECT_FALSE(json_lines(warned.out).empty());
  EXPECT_THAT(warned.err, HasSubstr("IBCOLL_NO_SUCH_THING"));
  const Ran quiet = run("IBCOLL_LOG_LEVEL=error");
  EXPECT_EQ(quiet.status, 0);
  EXPECT_FALSE(json_lines(quiet.out).empty());
  EXPECT_EQ(quiet.err, "");
}

}  // namespace
}  // namespace ibcoll
