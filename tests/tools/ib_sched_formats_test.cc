// ib_sched import and export, and programs that the engine takes from files, as users meet them.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/base/json.h"
#include "tests/files.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;
using ::testing::HasSubstr;

/// A file as MSCCL's generators write them: two ranks gather, then combine, in place. Each sends
/// its second half of two chunks; `dependency` is what rank 0's reduction comes after.
std::string allreduce_of_two(const std::string& dependency) {
  const auto gpu = [](int me, const std::string& depends) {
    const int other = 1 - me;
    return fmt::format(
        R"(<gpu id="{0}" i_chunks="2" o_chunks="0" s_chunks="1">
<tb id="0" send="{1}" recv="-1" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="{1}" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="s" srcbuf="i" srcoff="{0}" dstbuf="i" dstoff="{0}" cnt="1" depid="2" deps="0" hasdep="0"/>
</tb>
<tb id="1" send="-1" recv="{1}" chan="0">
<step s="0" type="r" srcbuf="i" srcoff="{0}" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>
<step s="1" type="r" srcbuf="i" srcoff="{1}" dstbuf="i" dstoff="{1}" cnt="1" depid="0" deps="0" hasdep="0"/>
</tb>
<tb id="2" send="-1" recv="-1" chan="0">
<step s="0" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="{0}" cnt="1" {2} hasdep="1"/>
</tb>
</gpu>
)",
        me, other, depends);
  };
  std::string text =
      "<algo name=\"pair\" nchunksperloop=\"2\" ngpus=\"2\" coll=\"allreduce\" inplace=\"1\">\n" +
      gpu(0, dependency) + gpu(1, "depid=\"1\" deps=\"0\"") + "</algo>\n";
  // The first send is waited for before its chunk is overwritten.
  const std::string first = "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n<step s=\"1\" type=\"s\"";
  for (size_t at = 0; (at = text.find(first, at)) != std::string::npos;)
    text.replace(at, first.size(),
                 "depid=\"-1\" deps=\"-1\" hasdep=\"1\"/>\n<step s=\"1\" type=\"s\"");
  return text;
}

const std::string kWhole = "depid=\"1\" deps=\"0\"";

TEST(IbSchedFormats, WhatIsImportedIsProvedDrawnAndSimulated) {
  const std::string xml = file("pair.xml", allreduce_of_two(kWhole));
  std::filesystem::create_directories(folder() / "programs");
  const std::string json = (folder() / "programs/pair.jsonl").string();
  const Ran imported = run_tool("ib_sched", "import " + xml + " --layout 1,1 --json " + json);
  ASSERT_EQ(imported.status, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("holds"));
  EXPECT_EQ(run_tool("ib_sched", "verify --program " + json).status, 0);
  const std::string svg = (folder() / "pair.svg").string();
  EXPECT_EQ(run_tool("ib_sched", "draw --program " + json + " --output " + svg).status, 0);
  EXPECT_THAT(content_of(svg), HasSubstr("<svg"));
  // A 2 MB block: each rank sends a half twice, which takes 2 ms at 1000 MB/s.
  const Ran simulated = run_shell(
      "IBCOLL_PROGRAMS=" + (folder() / "programs").string() + " " + bin_dir() + "/ib_sim" +
      " allreduce --layout 1,1 --algorithm pair --sizes 2000000 --json - "
      "--network single-switch:2,bandwidth=1000MB/s,latency=100ns");
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  const auto lines = json_lines(simulated.out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NEAR(lines[0]["time_us"].get<double>(), 2000, 100);
}

TEST(IbSchedFormats, ImportedProgramsRunOnAnyLayoutTheyAreMadeFor) {
  const std::string xml = file("pair.xml", allreduce_of_two(kWhole));
  const auto programs = folder() / "run";
  std::filesystem::create_directories(programs);
  for (const std::string layout : {"2", "1,1"}) {
    const std::string json = (programs / ("pair" + layout + ".jsonl")).string();
    ASSERT_EQ(
        run_tool("ib_sched", "import " + xml + " --layout " + layout + " --json " + json).status,
        0);
  }
  const std::string bench = "IBCOLL_PROGRAMS=" + programs.string() + " " + bin_dir() +
                            "/ib_a2a_bench" +
                            " --collective allreduce --algorithm pair --sizes 8,24,100008 --check "
                            "--iterations 3 ";
  for (const std::string layout : {"2", "1,1"}) {
    const Ran ran = run_shell(bench + "--layout " + layout);
    EXPECT_EQ(ran.status, 0) << ran.err;
  }
  const Ran other = run_shell(bench + "--layout 3");
  EXPECT_NE(other.status, 0);
  EXPECT_THAT(other.err, HasSubstr("'pair' has programs for layouts"));
}

TEST(IbSchedFormats, ImportedProgramsAreOfTheirRoot) {
  const std::string xml = (folder() / "gather.xml").string();
  const auto programs = folder() / "rooted";
  std::filesystem::create_directories(programs);
  ASSERT_EQ(run_tool("ib_sched",
                     "export --collective gather --algorithm binomial --ranks 5 "
                     "--root 2 --output " +
                         xml)
                .status,
            0);
  ASSERT_EQ(run_tool("ib_sched", "import " + xml + " --root 2 --name gathered --json " +
                                     (programs / "gather.jsonl").string())
                .status,
            0);
  const std::string verify = "IBCOLL_PROGRAMS=" + programs.string() + " " + bin_dir() +
                             "/ib_sched verify --collective gather --algorithm gathered --ranks 5 ";
  const Ran right = run_shell(verify + "--root 2");
  EXPECT_EQ(right.status, 0) << right.err;
  const Ran wrong = run_shell(verify + "--root 1");
  EXPECT_NE(wrong.status, 0);
  EXPECT_THAT(wrong.err, HasSubstr("with root 2"));
}

TEST(IbSchedFormats, WhatNothingOrdersIsRefusedWithItsStep) {
  const std::string xml = file("race.xml", allreduce_of_two("depid=\"-1\" deps=\"-1\""));
  expect_failed("ib_sched", "import " + xml, "race.xml: rank 0, threadblock");
  expect_failed("ib_sched", "import " + xml, "scratch");
}

TEST(IbSchedFormats, BadFilesAreRefusedInALine) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = allreduce_of_two(kWhole);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> bad{
      {"", "is no XML"},
      {"<algo", "is no XML"},
      {"<other/>", "there is no <algo>"},
      {with("ngpus=\"2\"", "ngpus=\"3\""), "has 2 GPUs, but 'ngpus' is 3"},
      {with("ngpus=\"2\"", "ngpus=\"99999999999999999999\""), "ngpus"},
      {with("nchunksperloop=\"2\"", "nchunksperloop=\"4294967296\""), "nchunksperloop"},
      {with("type=\"re\"", "type=\"xy\""), "unknown type 'xy'"},
      {with("type=\"re\"", ""), "'type' is missing"},
      {with("cnt=\"1\"", "cnt=\"0\""), "cnt must be"},
      {with("srcoff=\"1\"", "srcoff=\"1000000\""), "are not in the input"},
      {with("send=\"1\"", "send=\"0\""), "no peer of its own"},
      {with("recv=\"1\"", "recv=\"-1\""), "receives from nobody"},
      {with("depid=\"1\" deps=\"0\"", "depid=\"7\" deps=\"0\""), "which there is not"},
      {with("coll=\"allreduce\"", "coll=\"custom\""), "unknown collective 'custom'"},
      {with("coll=\"allreduce\"", "coll=\"allgather\""), "before anything is written there"},
  };
  for (const auto& [text, what] : bad)
    expect_failed("ib_sched", "import " + file("bad.xml", text), what);
  const std::string good = file("pair.xml", allreduce_of_two(kWhole));
  expect_refused("ib_sched", "import " + good + " --layout 3", "the program is of 2 ranks");
  expect_refused("ib_sched", "import " + good + " --format yaml", "unknown format 'yaml'");
  expect_failed("ib_sched", "import " + (folder() / "none.xml").string(), "none.xml");
}

TEST(IbSchedFormats, CyclesOfWaitsAreNamed) {
  std::string text = allreduce_of_two(kWhole);
  const std::string from =
      "cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"1\"/>\n<step s=\"1\" type=\"r\"";
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, from.size(),
               "cnt=\"1\" depid=\"2\" deps=\"0\" hasdep=\"1\"/>\n<step s=\"1\" type=\"r\"");
  expect_failed("ib_sched", "import " + file("cycle.xml", text), "in a cycle");
}

TEST(IbSchedFormats, ExportThenImportGivesTheSameProgram) {
  const std::string xml = file("pair.xml", allreduce_of_two(kWhole));
  const std::string first = (folder() / "first.jsonl").string();
  const std::string back = (folder() / "back.xml").string();
  const std::string second = (folder() / "second.jsonl").string();
  for (const std::string layout : {"2", "1,1"}) {
    ASSERT_EQ(
        run_tool("ib_sched", "import " + xml + " --layout " + layout + " --json " + first).status,
        0);
    ASSERT_EQ(run_tool("ib_sched", "export --program " + first + " --output " + back).status, 0);
    ASSERT_EQ(
        run_tool("ib_sched", "import " + back + " --layout " + layout + " --json " + second).status,
        0);
    EXPECT_EQ(content_of(first), content_of(second)) << layout;
  }
}

TEST(IbSchedFormats, OwnAlgorithmsComeBackProved) {
  for (const std::string what :
       {"allgather --algorithm ring", "allreduce --algorithm ring",
        "alltoall --algorithm linear --pacing free", "bcast --algorithm binomial --root 2"}) {
    for (const std::string layout : {"5", "2,1,2"}) {
      const std::string xml = (folder() / "own.xml").string();
      const Ran exported = run_tool(
          "ib_sched", "export --collective " + what + " --layout " + layout + " --output " + xml);
      ASSERT_EQ(exported.status, 0) << what << exported.err;
      const Ran imported =
          run_tool("ib_sched", "import " + xml + " --name again --layout " + layout);
      EXPECT_EQ(imported.status, 0) << what << imported.err;
    }
  }
  expect_failed("ib_sched",
                "export --collective barrier --algorithm dissemination --ranks 4 --output " +
                    (folder() / "none.xml").string(),
                "MSCCL has no collective barrier");
}

TEST(IbSchedFormats, GoalHasAMessageForEachPut) {
  const std::string goal = (folder() / "ring.goal").string();
  const Ran ran =
      run_tool("ib_sched",
               "export --collective allgather --algorithm ring --layout 1,1,1 --size 1K "
               "--goal --output " +
                   goal);
  ASSERT_EQ(ran.status, 0) << ran.err;
  const std::string text = content_of(goal);
  EXPECT_THAT(text, HasSubstr("num_ranks 3\n"));
  const auto count = [&](const std::string& what) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count(": send 1024b to "), 6u);
  EXPECT_EQ(count(": recv 1024b from "), 6u);
}

TEST(IbSchedFormats, ProgramsOfADirectoryMustHold) {
  const auto programs = folder() / "broken";
  std::filesystem::create_directories(programs);
  std::ofstream(programs / "x.jsonl") << "{\"schedule\": 1}\n";
  const Ran ran =
      run_shell("IBCOLL_PROGRAMS=" + programs.string() + " " + bin_dir() + "/ib_sched" + " list");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, HasSubstr("x.jsonl"));
}

}  // namespace
}  // namespace ibcoll
