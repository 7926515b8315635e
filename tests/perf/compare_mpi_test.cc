// compare_mpi as its users call it: what it writes, and when it judges.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/json.h"
#include "tests/files.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

constexpr const char* kShort =
    "--collective barrier,bcast --ranks 2 --sizes 8 --rounds 1 --samples 1 --batch 1us ";
constexpr const char* kTool = "compare_mpi";

bool has_mpi() {
  return can_launch("mpirun.openmpi", bin_dir() + "/compare_mpi_openmpi") ||
         can_launch("mpirun.mpich", bin_dir() + "/compare_mpi_mpich");
}

std::string cell_line(const char* collective, double speedup, const std::string& more) {
  return fmt::format(
      R"({{"collective":"{}","ranks":2,"bytes_per_pair":8,"memory":"user","ibcoll_us":2,)"
      R"("speedup":{},"speedup_low":0.1,"speedup_high":9{}}})"
      "\n",
      collective, speedup, more);
}

std::string state_line(const char* when, double others, double steal) {
  return fmt::format(R"({{"kind":"machine_state","when":"{}","load_average":[0,0,0],)"
                     R"("others_percent":{},"steal_percent":{}}})"
                     "\n",
                     when, others, steal);
}

/// What a comparison on a quiet machine of two cores begins with.
std::string quiet() {
  return R"({"kind":"machine","processor":"Quiet One","usable_cores":2})"
         "\n" +
         state_line("before", 0, 0) + state_line("during", 0, 0);
}

constexpr const char* kAgain =
    R"(,"again":{"rounds":21,"speedup":0.5,"speedup_low":0.4,"speedup_high":0.6})";

/// A process that does nothing but take time, as long as this lives.
class Busy {
 public:
  Busy() : process_(fork()) {
    EXPECT_GE(process_, 0);
    if (process_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) looked_ = looked_ + 1;
  }
  ~Busy() {
    if (process_ < 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

 private:
  volatile unsigned looked_ = 0;
  pid_t process_;
};

TEST(CompareMpi, WrongUsageIsRefused) {
  for (const auto& [arguments, what] : std::vector<std::pair<std::string, std::string>>{
           {"--ranks 0", "the number of ranks"},
           {"--sizes 12 --collective reduce", "multiples of 8"},
           {"--collective dance", "unknown collective 'dance'"},
           {"--all-tables --ranks 2", "--ranks"},
           {"--all-tables --user-memory", "--user-memory"},
           {"--judge --barrier", "--barrier"},
           {"--most-load 5", "--judge"},
           {"--judge --most-load 101", "--most-load"},
           {"--beside x.json", "--markdown"},
           {"--from x.json", "--from needs --markdown or --judge"},
           {"--from x.json --markdown y.md --json z.json", "--json"}}) {
    expect_refused(kTool, arguments, what);
  }
}

TEST(CompareMpi, InputThatIsNoComparisonIsAFailure) {
  const std::string wrong = file("wrong.json", "{}\n"),
                    good = file("good.json", cell_line("bcast", 2, "")),
                    page = folder() / "page.md";
  for (const std::string& name : {wrong, std::string("/nonexistent/file")}) {
    expect_failed(kTool, "--from " + name + " --markdown " + page, name);
    expect_failed(kTool, "--from " + good + " --beside " + name + " --markdown " + page, name);
    expect_failed(kTool, std::string(kShort) + "--beside " + name + " --markdown " + page, name);
  }
  EXPECT_FALSE(std::filesystem::exists(page));
  expect_failed(kTool, "--from " + good + " --markdown /dev/full", "can't write '/dev/full'");
}

TEST(CompareMpi, SaysWhatTheMachineIsAndCosts) {
  const std::string json = folder() / "run.json", page = folder() / "run.md";
  const Ran ran = run_tool(kTool, std::string(kShort) + "--json " + json + " --markdown " + page);
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::vector<std::string> kinds;
  for (const nlohmann::json& line : json_lines(content_of(json)))
    kinds.push_back(line.value("kind", "") + line.value("when", ""));
  EXPECT_THAT(kinds, IsSupersetOf({"machine", "machine_statebefore", "machine_stateduring",
                                   "machine_stateafter"}));
  EXPECT_THAT(ran.out, HasSubstr("before: load average "));
  EXPECT_THAT(ran.out, HasSubstr("after: load average "));
  // Nothing is known where there is one core only, or a very busy machine.
  if (ran.err.find("costs left out") == std::string::npos) {
    EXPECT_THAT(kinds, IsSupersetOf({"pair_costs", "machine_costs"}));
    EXPECT_THAT(ran.out, HasSubstr("round_trip_ns"));
    EXPECT_THAT(content_of(page), HasSubstr("`round_trip_ns`"));
  }
  // The page can be made again.
  const std::string again = folder() / "again.md";
  if (!has_mpi()) return;
  EXPECT_EQ(run_tool(kTool, "--from " + json + " --markdown " + again).status, 0);
  EXPECT_EQ(content_of(again), content_of(page));
}

TEST(CompareMpi, JsonOnStandardOutputStandsAlone) {
  const Ran ran = run_tool(kTool, std::string(kShort) + "--json -");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_FALSE(json_lines(ran.out).empty());
}

TEST(CompareMpi, WhatIsNamedTwiceIsMeasuredOnce) {
  if (!has_mpi()) GTEST_SKIP() << "no MPI to compare";
  const std::string json = folder() / "once.json", page = folder() / "once.md";
  const Ran ran =
      run_tool(kTool,
               "--collective bcast,bcast --ranks 2,2 --sizes 8,8 --rounds 1 --samples 1 "
               "--batch 1us --json " +
                   json);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(run_tool(kTool, "--from " + json + " --markdown " + page).status, 0);
}

TEST(CompareMpi, ABusyMachineIsNotJudged) {
  if (!has_mpi()) GTEST_SKIP() << "no MPI to compare";
  const std::string json = file("kept.json", "kept\n");
  const Busy busy;
  const Ran ran = run_tool(kTool, std::string(kShort) + "--judge --most-load 0 --json " + json);
  EXPECT_EQ(ran.status, 3) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("compare_mpi: not judged: others had "));
  EXPECT_THAT(ran.err, HasSubstr("at most 0 % is allowed"));
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  EXPECT_EQ(content_of(json), "kept\n");
}

TEST(CompareMpi, WhatIsMeasuredIsJudged) {
  if (!has_mpi()) GTEST_SKIP() << "no MPI to compare";
  const Ran ran = run_tool(kTool, std::string(kShort) + "--judge --most-load 100 --json");
  const std::vector<nlohmann::json> lines = json_lines(ran.out);
  ASSERT_FALSE(lines.empty()) << ran.err;
  EXPECT_EQ(lines.back().value("kind", ""), "verdict");
  EXPECT_EQ(lines.back().value("cells", 0), 2);
  // What is slow on a machine under any load is not for a test to say.
  EXPECT_EQ(lines.back().value("passes", false), ran.status == 0);
  EXPECT_EQ(ran.status == 0 ? 0 : 1, ran.status) << ran.err;
}

TEST(CompareMpi, ASlowCellIsAFailure) {
  const std::string name =
      file("slow.json", quiet() + cell_line("bcast", 2, "") + cell_line("scan", 0.5, kAgain));
  const Ran ran = run_tool(kTool, "--from " + name + " --judge");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, HasSubstr("slow: scan, 2 ranks, 8, private memory: 0.50x"));
  EXPECT_THAT(ran.err, HasSubstr("slower than allowed: 1 cells of 2"));
  const std::string fast = file("fast.json", quiet() + cell_line("bcast", 2, ""));
  EXPECT_EQ(run_tool(kTool, "--from " + fast + " --judge").status, 0);
}

TEST(CompareMpi, WhatWasMeasuredUnderLoadIsNotJudged) {
  const std::string cell = cell_line("bcast", 2, ""), quiet_one = state_line("before", 0, 0),
                    machine = R"({"kind":"machine","usable_cores":2})"
                              "\n";
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {quiet_one + state_line("during", 20, 0), "others had 20.0 %"},
           {quiet_one + state_line("during", 0, 20), "the host stole 20.0 %"},
           {state_line("before", 20, 0) + state_line("during", 0, 0), "before the comparison"},
           {quiet_one, "the state of the machine during the comparison is not known"}}) {
    const std::string name = file("loaded.json", machine + text + cell);
    expect_refused(kTool, "--from " + name + " --judge", what, 3);
  }
  const std::string barrier =
      file("barrier.json", quiet() + cell_line("bcast", 2, R"(,"after_barrier":true)"));
  expect_refused(kTool, "--from " + barrier + " --judge", "its calls followed barriers", 3);
  const std::string name =
      file("loaded.json", machine + quiet_one + state_line("during", 20, 0) + cell);
  EXPECT_EQ(run_tool(kTool, "--from " + name + " --judge --most-load 20").status, 0);
  const std::string part = R"(,"worst":{"of":"scan","others_percent":30,"steal_percent":0}})"
                           "\n";
  std::string disturbed = state_line("during", 5, 0);
  disturbed.replace(disturbed.rfind('}'), std::string::npos, part);
  expect_refused(kTool,
                 "--judge --from " + file("part.json", machine + quiet_one + disturbed + cell),
                 "others had 30.0 % of the processor time during the comparison (scan)", 3);
  expect_refused(kTool, "--judge --from " + file("once.json", quiet() + cell_line("scan", 0.5, "")),
                 "was not measured again", 3);
}

TEST(CompareMpi, APageHasTheVerdictOfNow) {
  // A comparison that was judged under a load that is not allowed now.
  const std::string page = folder() / "verdict.md",
                    name = file("judged.json",
                                R"({"kind":"machine","usable_cores":2})"
                                "\n" +
                                    state_line("before", 0, 0) + state_line("during", 20, 0) +
                                    cell_line("bcast", 2, "") +
                                    R"({"kind":"verdict","passes":true,"most_load":50})"
                                    "\n");
  const std::string show = "--from " + name + " --markdown " + page;
  EXPECT_EQ(run_tool(kTool, show).status, 0);
  EXPECT_THAT(content_of(page), HasSubstr("| others may have had, % of the processor time | 50 |"));
  EXPECT_EQ(run_tool(kTool, show + " --judge").status, 3);
  EXPECT_THAT(content_of(page), Not(HasSubstr("verdict")));
  EXPECT_EQ(run_tool(kTool, show + " --judge --most-load 25").status, 0);
  EXPECT_THAT(content_of(page), HasSubstr("| others may have had, % of the processor time | 25 |"));
}

TEST(CompareMpi, PutsAnotherMachineBeside) {
  const std::string page = folder() / "both.md",
                    here = file("here.json", quiet() + cell_line("bcast", 2, "")),
                    there = file("there.json", quiet() + cell_line("bcast", 3, ""));
  const Ran ran = run_tool(kTool, "--from " + here + " --beside " + there + " --markdown " + page);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(content_of(page),
              HasSubstr("| 8 | 4.00 / 2.00 = 2.00x (0.10 to 9.00) | 6.00 / 2.00 = 3.00x (0.10 to "
                        "9.00) |"));
}

TEST(CompareMpi, FullAllTablesAreWhole) {
  if (!has_mpi()) GTEST_SKIP() << "no MPI to compare";
  const std::string json = folder() / "all.json", page = folder() / "all.md";
  const Ran ran = run_tool(kTool, "--all-tables --rounds 1 --samples 1 --batch 1us --json " + json +
                                      " --markdown " + page);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(content_of(page), HasSubstr("## Private memory"));
  EXPECT_THAT(content_of(page), HasSubstr("## The engine's memory"));
  // Whole tables have means to judge; a cell that was measured once may seem slow.
  std::string fast;
  for (nlohmann::json line : json_lines(content_of(json))) {
    if (line.contains("speedup_of_rounds")) line["speedup_of_rounds"] = 2;
    if (line.value("kind", "") == "machine_state") {
      line["others_percent"] = line["steal_percent"] = 0;
      line.erase("worst");
    }
    fast += json_text(line) + "\n";
  }
  const Ran judged = run_tool(kTool, "--judge --from " + file("fast.json", fast));
  EXPECT_THAT(judged.out, HasSubstr("private memory, all: "));
  EXPECT_THAT(judged.out, HasSubstr("the engine's memory, all: "));
}

}  // namespace
}  // namespace ibcoll
