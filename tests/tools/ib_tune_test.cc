// ib_tune as a user runs it: rules that jobs take, judgement of rules, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "engine/base/json.h"
#include "engine/tuner/rules.h"
#include "tests/files.h"
#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;
using ::testing::HasSubstr;

constexpr const char* kShort = "--sizes 8,4K --rounds 3 --batch 1us --budget 0 ";

Ran tune(const std::string& arguments) {
  return run_shell("timeout 200 " + bin_dir() + "/ib_tune " + arguments);
}

std::vector<nlohmann::json> of_kind(const Ran& ran, const std::string& kind) {
  std::vector<nlohmann::json> all;
  for (const nlohmann::json& line : json_lines(ran.out))
    if (line["kind"] == kind) all.push_back(line);
  return all;
}

class IbTune : public ::testing::Test {
 protected:
  /// Where the machine stands still for long, ranks would tell on standard error for whom they
  /// wait.
  IbTune() { setenv("IBCOLL_LATE", "0", 1); }
  ~IbTune() override { unsetenv("IBCOLL_LATE"); }
};

TEST_F(IbTune, WritesRulesThatAJobTakes) {
  const std::string rules = folder() / "rules.jsonl";
  const std::string job = "--layout 2,1 --transport loopback ";
  const Ran ran = tune(kShort + job + "--collectives alltoall,bcast,allgatherv,barrier --out " +
                       rules + " --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const auto points = of_kind(ran, "point");
  ASSERT_EQ(points.size(), 7u) << "two sizes of three collectives, and a barrier";
  for (const nlohmann::json& point : points) {
    EXPECT_EQ(point["layout"], "2,1");
    EXPECT_EQ(point["ranks"], 3);
    EXPECT_EQ(point["transport"], "loopback");
    EXPECT_GT(point["own_us"], 0);
    EXPECT_GT(point["choice_us"], 0);
    EXPECT_LE(point["ratio"], 1);
    EXPECT_GE(point["rounds"], 1);
  }
  const auto read = parse_rules(content_of(rules));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(of_kind(ran, "summary").at(0)["rules"], read->front().rules.size());
  const Ran bench =
      run_shell("IBCOLL_RULES_STRICT=1 IBCOLL_RULES=" + rules + " timeout 100 " + bin_dir() +
                "/ib_a2a_bench " + job + "--sizes 8,4K --iterations 2 --batch 1us --check --json");
  EXPECT_EQ(bench.status, 0) << bench.err;
  EXPECT_EQ(bench.err, "");
  const Ran other =
      run_shell("IBCOLL_RULES=" + rules + " timeout 100 " + bin_dir() +
                "/ib_a2a_bench --ranks 2 --sizes 8 --iterations 2 --batch 1us --json");
  EXPECT_EQ(other.status, 0);
  EXPECT_THAT(other.err, HasSubstr("rules are left out, being for layout 2,1, not 1x2"));
  EXPECT_EQ(std::count(other.err.begin(), other.err.end(), '\n'), 1) << other.err;
}

TEST_F(IbTune, JudgesRules) {
  const std::string rules = file("judged.jsonl",
                                 R"({"ibcoll_rules": 1, "layout": "1x3", "engine": "0.1"}
{"collective": "bcast", "algorithm": "linear"}
)");
  const Ran ran =
      tune(kShort + std::string("--ranks 3 --collectives bcast,reduce --json --verify ") + rules);
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto points = of_kind(ran, "point");
  ASSERT_EQ(points.size(), 4u);
  double worst = 1;
  for (const nlohmann::json& point : points) {
    const std::string judged = point["judged"];
    EXPECT_EQ(point["collective"] == "bcast", judged.starts_with("linear")) << judged;
    EXPECT_TRUE(point["sure_regret"].is_number());
    worst = std::max(worst, point["regret"].get<double>());
    EXPECT_TRUE(point["within"].is_boolean());
  }
  const auto summary = of_kind(ran, "summary").at(0);
  EXPECT_EQ(summary["points"], 4);
  EXPECT_EQ(summary["worst"], worst);
  const Ran text = tune(kShort + std::string("--ranks 3 --collectives barrier --verify ") + rules);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("rules are for ibcoll 0.1, not"));
  EXPECT_THAT(text.out, HasSubstr("1 of 1 choices (100 %) within 5 %"));
}

TEST_F(IbTune, NamesWhatTheEngineRunsOnAKnownNetwork) {
  const std::string job =
      "--layout 4x1 --transport loopback --network single-switch:4 --collectives gather "
      "--sizes 64K --rounds 3 --batch 1us --json ";
  const Ran ran = tune(job);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(of_kind(ran, "point").at(0)["own"], "contention_free");
  const std::string rules = file("linear.jsonl", R"({"ibcoll_rules": 1, "layout": "4x1"}
{"collective": "gather", "algorithm": "linear"}
)");
  const Ran judged = tune(job + "--verify " + rules);
  ASSERT_EQ(judged.status, 0) << judged.err;
  EXPECT_EQ(of_kind(judged, "point").at(0)["own"], "contention_free");
  EXPECT_EQ(of_kind(judged, "point").at(0)["judged"], "linear");
}

TEST_F(IbTune, SimulatesJobsThatAreNotHere) {
  const std::string rules = folder() / "simulated.jsonl";
  const std::string job =
      "--simulate --layout 6x2 --network single-switch:6 --collectives alltoall,allgatherv,reduce "
      "--sizes 64,64K ";
  const Ran ran = tune(job + "--json --out " + rules);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(of_kind(ran, "point").size(), 6u);
  const auto read = parse_rules(content_of(rules));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->front().job.layout, "6x2");
  EXPECT_EQ(read->front().job.processor, "") << "of no machine";
  const Ran judged = tune(job + "--json --verify " + rules);
  ASSERT_EQ(judged.status, 0) << judged.err;
  for (const nlohmann::json& point : of_kind(judged, "point")) {
    EXPECT_LT(point["regret"], 1.04) << "the same simulation: " << point;
  }
}

TEST_F(IbTune, SimulatesWithMeasuredCosts) {
  std::string costs;
  for (const char* layer : {"shm", "network"})
    for (const auto& [bytes, ns] : {std::pair(8, 2000), {262144, 30'000}, {1048576, 110'000}})
      costs += fmt::format(
          R"({{"layer": "{}", "bytes": {}, "hop_ns": {}, "hop_p99_ns": {}, "gap_ns": {}, )"
          R"("gap_p99_ns": {}, "hop_max_ns": {}, "wake_p99_ns": 0, "operation_p99_ns": 0, )"
          R"("ranks_per_core": 1}})"
          "\n",
          layer, bytes, ns, 2 * ns, ns / 2, ns, 4 * ns);
  const std::string logp = file("logp.jsonl", costs);
  const std::string job = "--simulate --servers 3 --ranks 3 --collectives bcast --sizes 8,1M ";
  const Ran ran = tune(job + "--logp " + logp);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("0.50 us to send or receive a message"));
  const std::string local = file("local.jsonl", costs.substr(0, costs.find(R"({"layer": "net)")));
  expect_failed("ib_tune", job + "--logp " + local, "no costs of messages between servers");
  expect_failed("ib_tune", job + "--logp /nonexistent/file", "can't read /nonexistent/file");
}

TEST_F(IbTune, ShowsWhatIsBuiltInAsRulesThatAJobTakes) {
  const Ran shown = tune("--built-in 2x2");
  ASSERT_EQ(shown.status, 0) << shown.err;
  const auto read = parse_rules(shown.out);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->front().job.layout, "2x2");
  EXPECT_EQ(read->front().job.transport, "");
  EXPECT_THAT(shown.out, HasSubstr(R"("note":"several ranks a server")"));
  EXPECT_THAT(shown.out, ::testing::Not(HasSubstr("contention_free")));

  const std::string rules = folder() / "built_in.jsonl";
  const Ran ran = tune("--built-in 2,2 --transport loopback --out " + rules);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "");
  const Ran bench =
      run_shell("IBCOLL_RULES_STRICT=1 IBCOLL_RULES=" + rules + " timeout 100 " + bin_dir() +
                "/ib_a2a_bench --layout 2x2 --transport loopback --sizes 8,64K "
                "--iterations 2 --batch 1us --check --json");
  EXPECT_EQ(bench.status, 0) << bench.err;
  EXPECT_EQ(bench.err, "");

  const Ran sparing = tune("--built-in 4x4 --transport ucx");
  EXPECT_EQ(sparing.status, 0) << sparing.err;
  EXPECT_THAT(sparing.out, HasSubstr(R"("algorithm":"contention_free")"));
  const Ran known = tune("--built-in 4x1");
  EXPECT_THAT(known.out, HasSubstr("contention_free where a plan for the network pays"));
}

TEST_F(IbTune, RefusesWhatMakesNoSense) {
  const auto refused = [](const std::string& arguments, const std::string& why) {
    expect_refused("ib_tune", arguments, why);
  };
  refused("--collectives alltoal", "unknown collective 'alltoal'");
  refused("--collectives ,", "collective");
  refused("--sizes 2-1", "runs backwards");
  refused("--sizes 9999T", "is over the limit of 1T bytes a pair");
  refused("--rounds 1", "--rounds");
  refused("--batch 2min", "--batch 2min is over the limit of 60s");
  refused("--budget 2000min", "--budget 2000min is over the limit of a day");
  refused("--out a --verify b", "--out writes rules, --verify judges those there are");
  refused("--built-in 2x2 --verify a", "--built-in measures nothing");
  refused("--built-in 2x2 --ranks 4", "--built-in names the layout itself");
  refused("--built-in 2xx", "2xx");
  refused("--built-in 1000x1000", "1000000 ranks are more than the limit of 100000");
  refused("--built-in 2x2 --transport shm", "--transport shm is not for the 2 servers of 2x2");
  refused("--built-in 4 --transport ucx", "--transport ucx is not for the 1 server of 1x4");
  refused("--logp a", "--logp is for --simulate");
  refused("--simulate --servers 2", "--simulate takes --logp, --network or both");
  refused("--simulate --ranks 4 --network single-switch:4", "say --servers or --layout");
  refused("--simulate --layout 9x1 --network single-switch:4", "has 4 hosts for 9 servers");
  refused("--transport loopback", "--transport loopback joins servers");
  refused("--ranks 0", "0");
  expect_failed("ib_tune", "--ranks 2 --out /nonexistent/rules",
                "can't write '/nonexistent/rules'");
  expect_failed("ib_tune", "--ranks 2 --verify /nonexistent/rules",
                "can't read /nonexistent/rules");
  expect_failed("ib_tune", "--ranks 2 --verify " + file("empty.jsonl", ""), "no rules in it");
  expect_failed("ib_tune",
                "--ranks 2 --verify " + file("other.jsonl", R"({"ibcoll_rules":1,"layout":"5x5"})"),
                "no rules for layout 1x2");
}

TEST_F(IbTune, LeavesTheRulesOfTheEnvironmentAlone) {
  const std::string damaged = file("damaged.jsonl", "{");
  const Ran ran = run_shell("IBCOLL_RULES=" + damaged + " timeout 100 " + bin_dir() + "/ib_tune " +
                            kShort + "--ranks 2 --collectives barrier");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const Ran bench = run_shell("IBCOLL_RULES=" + damaged + " timeout 100 " + bin_dir() +
                              "/ib_a2a_bench --ranks 3 --sizes 8 --iterations 1 --batch 1us");
  EXPECT_EQ(bench.status, 1);
  EXPECT_THAT(bench.err, HasSubstr("IBCOLL_RULES: " + damaged + ": line 1: is not JSON"));
  EXPECT_EQ(std::count(bench.err.begin(), bench.err.end(), '\n'), 1) << bench.err;
}

}  // namespace
}  // namespace ibcoll
