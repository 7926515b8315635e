/// ib_plan as its users meet it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/json.h"
#include "tests/files.h"
#include "tests/tool.h"

namespace ibcoll::testing_tools {
namespace {

using ::testing::HasSubstr;

TEST(IbPlan, ShowsAPlanAndProvesIt) {
  const Ran ran = run_tool("ib_plan",
                           "--collective gather --network single-switch:8,bandwidth=1Gbit/s "
                           "--size 20K --check");
  EXPECT_EQ(ran.status, 0) << ran.err;
  for (const char* column : {"planner", "policy", "tasks", "groups", "plan_ms", "simulated_us",
                             "lower_bound_us", "relayed_bytes", "checked", "yes"}) {
    EXPECT_THAT(ran.out, HasSubstr(column));
  }
}

TEST(IbPlan, ComparesPlannersAndPoliciesAsJson) {
  const Ran ran = run_tool("ib_plan",
                           "--network wan:4,4,bandwidth=1Gbit/s,latency=10us,long-latency=5ms "
                           "--sizes 10K,20K --planner all --policy all --relay off --check "
                           "--json - --plot " +
                               (folder() / "compared.svg").string());
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto lines = json_lines(ran.out);
  ASSERT_EQ(lines.size(), 2 * (5 + 5 + 1));
  for (const auto& line : lines) {
    EXPECT_EQ(line["checked"], true);
    EXPECT_GE(line["over_bound"].get<double>(), 0.999);
    EXPECT_NEAR(line["simulated_us"].get<double>(), line["planned_us"].get<double>(),
                0.1 * line["planned_us"].get<double>());
  }
  EXPECT_GT(std::filesystem::file_size(folder() / "compared.svg"), 1000u);
}

TEST(IbPlan, DrawsOnePlanAndWritesIt) {
  const std::string picture = folder() / "links.svg", plan = folder() / "plan.json";
  const Ran ran = run_tool("ib_plan", "--network fat-tree:2,2 --collective allgather --plot " +
                                          picture + " --output " + plan);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_GT(std::filesystem::file_size(picture), 1000u);
  EXPECT_EQ(parse_json(content_of(plan)).value()["kind"], "allgather");
}

TEST(IbPlan, PlansWithWrongInputs) {
  const Ran ran = run_tool("ib_plan", "--network single-switch:8 --wrong 0.3 --check --json -");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto row = json_lines(ran.out)[0];
  EXPECT_LE(row["over_bound"].get<double>(), 1.3);
  EXPECT_LE(row["waited_us"].get<double>(), row["jitter_us"].get<double>() + 0.001);
  const Ran right = run_tool("ib_plan", "--network single-switch:8 --json -");
  EXPECT_TRUE(json_lines(right.out)[0]["jitter_us"].is_null());
}

TEST(IbPlan, ComparesNetworksAndErrors) {
  const std::string picture = folder() / "servers.svg";
  const Ran ran = run_tool("ib_plan",
                           "--network single-switch:4 single-switch:8 --size 1K --show groups "
                           "--plot " +
                               picture);
  EXPECT_EQ(ran.status, 0) << ran.err;
  for (const char* cell : {"single-switch:4", "single-switch:8", "network"}) {
    EXPECT_THAT(ran.out, HasSubstr(cell));
  }
  const std::string svg = content_of(picture);
  EXPECT_THAT(svg, HasSubstr("link groups"));
  EXPECT_THAT(svg, HasSubstr("servers"));
  const Ran wrong =
      run_tool("ib_plan", "--network single-switch:8 --wrong 0 0.1 --draws 3 --json -");
  EXPECT_EQ(json_lines(wrong.out).size(), 4u);
}

TEST(IbPlan, CutsMessagesWhereTheyDontDivideEvenly) {
  const std::string arguments =
      "--collective allgather --size 1M --check --json - "
      "--network torus:3x3x3,bandwidth=300GB/s,trunk-bandwidth=50GB/s --parts ";
  const auto over_bound = [&](int parts) {
    const Ran ran = run_tool("ib_plan", arguments + std::to_string(parts));
    EXPECT_EQ(ran.status, 0) << ran.err;
    return json_lines(ran.out)[0]["planned_us"].get<double>() /
           json_lines(ran.out)[0]["lower_bound_us"].get<double>();
  };
  // 26 messages over 6 links take as long as 30 would.
  EXPECT_GE(over_bound(0), 1.15);
  EXPECT_LE(over_bound(6), 1.06);
}

TEST(IbPlan, FindsFilesItCannotWriteBeforeItPlans) {
  const Ran ran = run_tool("ib_plan", "--network single-switch:4 --output /nonexistent/plan.json");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("/nonexistent/plan.json"));
}

TEST(IbPlan, RefusesBadInputByName) {
  const auto refused = [](const std::string& arguments, const std::string& what) {
    expect_refused("ib_plan", arguments, what);
  };
  const auto failed = [](const std::string& arguments, const std::string& what) {
    expect_failed("ib_plan", arguments, what);
  };
  refused("--collective gossip", "unknown collective 'gossip'");
  refused("--planner magic", "unknown planner 'magic'");
  refused("--policy luck", "unknown policy 'luck'");
  refused("--relay maybe", "--relay 'maybe': on or off");
  refused("--network single-switch:4 --servers 5", "--servers 5: must be 1 to 4");
  refused("--network single-switch:4 --layout 5x2", "5 servers, but single-switch:4 has 4 hosts");
  refused("--network single-switch:4 --layout 1000000x1 --collective bcast", "has 4 hosts");
  refused("--network single-switch:4 --root 4", "root 4: there are servers 0 to 3");
  refused("--network single-switch:4 --permitted 0-1,2-3", "no way between servers 0 and 2");
  refused("--network single-switch:4 --permitted 0:1", "'0:1' is not a pair");
  refused("--network single-switch:4,bandwidth=0MB/s", "bandwidth");
  refused("--network single-switch:4 --permitted ''", "no way between servers 0 and 1");
  refused("--network single-switch:8000", "63992000 transfers");
  refused("--parts 65", "--parts 65: must be 0 to 64");
  refused("--draws 0", "--draws 0: must be 1 to 1000");
  refused("--show beauty", "unknown measure 'beauty'");
  refused("--wrong 2", "inputs wrong by 2");
  refused("--error 1", "--error '1': auto, or 0 to 0.95");
  refused("--size 999999P", "999999P");
  refused("--layout 0x3", "0x3");
  refused("--size -1", "'-1'");
  failed("--network " + file("cut.json", R"({"format": "ibcoll fabric 1", "name": )"), "cut.json");
  // Networks with what plans can't be made for.
  const std::string nodes =
      R"({"format": "ibcoll fabric 1", "name": "n", "hosts": [{"name": "a"}, {"name": "b"}],)"
      R"("switches": [{"name": "s"}], "cables": [{"ends": ["a", 1, "s", 1], "bandwidth": )";
  const std::string rest = R"(}, {"ends": ["b", 1, "s", 2], "bandwidth": 1e9}])";
  failed("--network " + file("zero.json", nodes + "0" + rest + "}"), "bandwidth");
  failed("--network " +
             file("two.json", nodes + "1e9" + rest + R"(, "routes": {"s": [1, 2], "s": [2, 1]}})"),
         "\"s\" stands twice");
}

TEST(IbPlan, APlansPictureHasRoundTimes) {
  const std::string plot = folder() / "plan.svg";
  // 256 us; quarters of it are none that people count in.
  ASSERT_EQ(run_tool("ib_plan", "--network single-switch:6 --plot " + plot).status, 0);
  const std::string picture = content_of(plot);
  EXPECT_NE(picture.find(">50 us<"), std::string::npos);
  EXPECT_EQ(picture.find("64.1"), std::string::npos);
}

}  // namespace
}  // namespace ibcoll::testing_tools
