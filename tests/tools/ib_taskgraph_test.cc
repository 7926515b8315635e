/// ib_taskgraph as a user runs it.

#include <gtest/gtest.h>

#include "engine/base/json.h"
#include "tests/files.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll::testing_tools {
namespace {

TEST(IbTaskgraph, JsonWithoutAFileIsStandardOutput) {
  const Ran ran = run_tool("ib_taskgraph",
                           "schedule --graph gauss-jordan:16 --processors 16 --scheduler sppc "
                           "--json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto lines = json_lines(ran.out);
  ASSERT_EQ(lines.size(), 1u);
  for (const char* field : {"scheduler", "processors", "makespan", "speedup", "messages",
                            "duplicates", "seconds", "peak_bytes", "checked"})
    EXPECT_TRUE(lines[0].contains(field)) << field;
  EXPECT_EQ(lines[0]["checked"], true);
}

TEST(IbTaskgraph, SchedulesAreWrittenCheckedAndDrawn) {
  const std::string schedule = folder() / "lu.schedule", picture = folder() / "lu.svg",
                    charts = folder() / "lu";
  EXPECT_EQ(
      run_tool("ib_taskgraph", "schedule --graph lu:12 --processors 3 --output " + schedule).status,
      0);
  const Ran right = run_tool("ib_taskgraph", "check --graph lu:12 " + schedule);
  EXPECT_EQ(right.status, 0) << right.err;
  EXPECT_NE(right.out.find("right: makespan"), std::string::npos);
  EXPECT_EQ(
      run_tool("ib_taskgraph", "draw --graph lu:12 " + schedule + " --plot " + picture).status, 0);
  EXPECT_TRUE(std::filesystem::exists(picture));
  EXPECT_EQ(
      run_tool("ib_taskgraph",
               "schedule --graph lu:12 --processors 2-4 --scheduler sppc,bcsh --charts " + charts)
          .status,
      0);
  for (const char* chart : {"speedup", "usage", "overhead", "overlap", "seconds"})
    EXPECT_TRUE(std::filesystem::exists(charts + "_" + chart + ".svg")) << chart;
  // Another graph's schedule is no schedule of this one.
  EXPECT_NE(run_tool("ib_taskgraph", "check --graph lu:13 " + schedule).status, 0);
}

TEST(IbTaskgraph, CheckSaysInJsonWhatScheduleSaid) {
  const std::string schedule = folder() / "json.schedule";
  const Ran made =
      run_tool("ib_taskgraph", "schedule --graph lu:12 --processors 3 --json --output " + schedule);
  ASSERT_EQ(made.status, 0) << made.err;
  const Ran checked = run_tool("ib_taskgraph", "check --json --graph lu:12 " + schedule);
  ASSERT_EQ(checked.status, 0) << checked.err;
  const auto before = json_lines(made.out), after = json_lines(checked.out);
  ASSERT_EQ(after.size(), 1u);
  for (const char* field : {"processors", "makespan", "messages", "packed_results", "duplicates"})
    EXPECT_EQ(after[0][field], before.at(0)[field]) << field;
}

/// etf takes 20 000 tasks at most.
const std::string kTooLargeForEtf =
    "schedule --processors 2 --logp 0,0,0 --graph layered:201x100:1 --json ";

TEST(IbTaskgraph, ASchedulerThatRefusesAGraphFailsBehindTheOthers) {
  const Ran ran = run_tool("ib_taskgraph", kTooLargeForEtf + "--scheduler etf,heft");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.err, "ib_taskgraph: etf takes at most 20000 tasks, these are 20100\n");
  const auto lines = json_lines(ran.out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["scheduler"], "heft");
}

TEST(FullIbTaskgraph, AllSchedulersAreThoseThatTakeTheGraph) {
  const Ran ran = run_tool("ib_taskgraph", kTooLargeForEtf + "--scheduler all");
  EXPECT_EQ(ran.status, 0);
  EXPECT_NE(ran.err.find("etf left out: etf takes at most"), std::string::npos) << ran.err;
}

TEST(IbTaskgraph, BadInputIsRefusedInOneLine) {
  const auto refused = [](const std::string& arguments, const std::string& what) {
    expect_refused("ib_taskgraph", arguments, what);
  };
  const auto failed = [](const std::string& arguments, const std::string& what) {
    expect_failed("ib_taskgraph", arguments, what);
  };
  const std::string with = "schedule --scheduler sppc --processors 2 --graph ";
  refused("schedule --graph lu:8 --processors 0", "processors");
  refused("schedule --graph lu:8 --processors 4 --scheduler best", "no scheduler named 'best'");
  refused("schedule --graph lu:8 --logp 1,2", "--logp '1,2'");
  refused("schedule --graph lu:8 --logp 1,-2,3", "-2");
  failed(with + file("cycle.stg", "2\n0 1 1 1\n1 5 1 0\n"), "line 3: the graph has a cycle");
  failed(with + file("negative.stg", "2\n0 1 0\n1 -5 1 0\n"), "line 3");
  failed(with + file("cut.stg", "3\n0 1 0\n1 5 1 0\n"), "the file ends after 2 of 3 tasks");
  failed(with + file("missing.json", "{\"weights\": [1, 2], \"edges\": [[0, 5]]}"),
         "there is no task 5");
  refused(with + "torus:8", "torus");
  refused("run --size 1", "--size 1");
  refused("distance --rounds 0 --logp 1,1,1", "--rounds 0");
  refused("schedule", "--graph is required");
}

TEST(IbTaskgraph, OptimaAreComparedWithFilesOfASet) {
  const std::string graphs = source_dir() + "/docs/results/data/task_graphs";
  const std::string with = "optima " + graphs + " --optima ";
  const Ran ran =
      run_tool("ib_taskgraph", with + graphs + "/optima.csv --scheduler sppc+,ecpfd --json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto lines = json_lines(ran.out);
  ASSERT_EQ(lines.size(), 8u);
  for (const auto& line : lines) {
    EXPECT_EQ(line["cases"], 3);
    EXPECT_EQ(line["below"], 0);
    if (line["scheduler"] == "sppc+") {
      EXPECT_EQ(line["best_known"], 3);
    }
    EXPECT_GE(line["worst_ratio"], 1.0);
  }
  expect_failed("ib_taskgraph", with + file("wrong.csv", "rand0000.stg,2\n"), "line 1: expected");
  expect_failed("ib_taskgraph", with + file("gone.csv", "gone.stg,2,5\n"), "gone.stg");
  expect_failed("ib_taskgraph", with + file("none.csv", ""), "there is no optimum");
  expect_failed("ib_taskgraph", with + graphs + "/nosuch.csv", "nosuch.csv");
  expect_refused("ib_taskgraph", "optima " + graphs, "--optima is required");
}

TEST(IbTaskgraph, FilesOfOthersAreConverted) {
  const std::string hyperdag = folder() / "tree.hdag", back = folder() / "tree.stg";
  EXPECT_EQ(run_tool("ib_taskgraph", "convert --graph in-tree:2:3 --output " + hyperdag).status, 0);
  EXPECT_EQ(run_tool("ib_taskgraph", "convert --graph " + hyperdag + " --output " + back).status,
            0);
  const Ran ran = run_tool("ib_taskgraph", "schedule --processors 2 --graph " + back);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("15 tasks, 14 edges"), std::string::npos) << ran.out;
  const std::string with = "schedule --processors 2 --graph ";
  expect_failed("ib_taskgraph", with + file("cut.hdag", "1 2 2\n0\n"),
                "the file ends after 0 of 2");
  expect_failed("ib_taskgraph",
                with + file("workflow.json",
                            "{\"workflow\": {\"tasks\": [{\"id\": \"a\", "
                            "\"parents\": [\"b\"]}]}}"),
                "task 'a': there is no task 'b'");
  expect_refused("ib_taskgraph", with + "cybershake:3", "VARIATIONS is missing");
}

TEST(IbTaskgraph, AScheduleIsDrawnOverTimeWithItsUnit) {
  const std::string plot = folder() / "lu.svg";
  const Ran ran = run_tool("ib_taskgraph", "schedule --graph lu:16 --processors 2 --plot " + plot);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(content_of(plot).find("time, in the unit of the weights"), std::string::npos);
}

TEST(IbTaskgraph, MoreProcessorsThanTasksAreAllowed) {
  const Ran ran =
      run_tool("ib_taskgraph", "schedule --graph lu:2 --processors 64 --scheduler all --json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  for (const auto& line : json_lines(ran.out)) EXPECT_EQ(line["checked"], true);
}

}  // namespace
}  // namespace ibcoll::testing_tools
