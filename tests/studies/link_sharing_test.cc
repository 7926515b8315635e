// Whether puts that nothing orders share links of a network.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/algorithms/registry.h"
#include "engine/base/json.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/schedule/layout.h"
#include "studies/verification/link_sharing.h"
#include "tests/tool.h"
#include "topology/spec.h"

namespace ibcoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_tools::expect_refused;
using testing_tools::json_lines;
using testing_tools::run_tool;

LinkSharing share(const char* algorithm, const char* layout, const char* network,
                  Pacing pacing = Pacing::kGateToken, std::vector<int> hosts = {}) {
  const Shape shape = parse_layout(layout).value();
  AlgorithmOptions options;
  options.pacing = pacing;
  const Programs programs =
      build_all(*find_algorithm(Collective::kAlltoall, algorithm).value(), shape, options);
  std::vector<OrderedPut> puts;
  EXPECT_TRUE(verify(shape, programs, 0, &puts));
  if (hosts.empty()) {
    hosts.resize(shape.servers());
    std::iota(hosts.begin(), hosts.end(), 0);
  }
  return prove_link_sharing(topology::open_fabric(network).value(), shape, hosts, puts);
}

TEST(LinkSharing, PacedTwoLevelRingHoldsOnOneSwitch) {
  for (const char* layout : {"6x3", "8x1", "3,1,2,4"}) {
    const LinkSharing result = share("two_level_ring", layout, "single-switch:8");
    EXPECT_TRUE(result.holds) << layout << ": " << result.witness;
    EXPECT_GT(result.puts, 0);
    EXPECT_EQ(result.crossings, 2 * result.puts);
  }
}

TEST(LinkSharing, WithoutTokensThePairIsNamed) {
  const LinkSharing result = share("two_level_ring", "6x3", "single-switch:6", Pacing::kFree);
  EXPECT_FALSE(result.holds);
  EXPECT_THAT(result.witness, AllOf(HasSubstr("link s0["), HasSubstr("the put of rank "),
                                    HasSubstr("may run at once")));
  EXPECT_FALSE(share("ring", "4x3", "single-switch:4").holds);
}

TEST(LinkSharing, TwoServersNeedNoOrder) {
  EXPECT_TRUE(share("ring", "2x4", "single-switch:2", Pacing::kFree).holds);
}

TEST(LinkSharing, NarrowTrunksAreShared) {
  // Four servers behind a trunk: one flow fits a trunk as wide as a host's link, four do not.
  EXPECT_FALSE(share("two_level_ring", "8x1", "tree:4x2").holds);
  EXPECT_TRUE(share("two_level_ring", "8x1", "tree:4x2,trunk-bandwidth=8000MB/s").holds);
  const LinkSharing three = share("two_level_ring", "8x1", "tree:4x2,trunk-bandwidth=6000MB/s");
  EXPECT_FALSE(three.holds);
  EXPECT_THAT(three.witness, HasSubstr("more may run at once and need 8000 MB/s"));
}

TEST(LinkSharing, WideHostLinksTakeSeveralSources) {
  // Hosts of 2000 MB/s behind trunks of 1000 MB/s: two sources fit the receiver's link.
  EXPECT_TRUE(
      share("two_level_ring", "2x2", "tree:1x2,trunk-bandwidth=1000MB/s", Pacing::kFree).holds);
}

/// Three servers behind a trunk for two: chains that are found one by one don't show it, a search
/// through all puts does.
TEST(LinkSharing, PlansForWideTrunksAreProved) {
  const topology::Fabric fabric =
      topology::open_fabric("tree:3x3,bandwidth=1Gbit/s,trunk-bandwidth=2Gbit/s,latency=10us")
          .value();
  const Shape shape = parse_layout("9x1").value();
  std::vector<int> hosts(9);
  std::iota(hosts.begin(), hosts.end(), 0);
  contention_free::PlanStore plans(fabric, {.tokens_ahead = false});
  const auto* algorithm = find_algorithm(Collective::kAlltoall, "contention_free").value();
  for (const int64_t bytes : {4096, 100'000}) {
    AlgorithmOptions options;
    options.plan = plans.find(Collective::kAlltoall, shape, hosts, 0, bytes).value();
    std::vector<OrderedPut> puts;
    ASSERT_TRUE(verify(shape, build_all(*algorithm, shape, options), 0, &puts));
    const LinkSharing result = prove_link_sharing(fabric, shape, hosts, puts);
    EXPECT_TRUE(result.holds) << result.witness;
  }
}

TEST(LinkSharing, SmallMessagesNeedNoOrder) {
  const topology::Fabric fabric = topology::open_fabric("single-switch:4,latency=10us").value();
  const Shape shape = parse_layout("4x1").value();
  const std::vector<int> hosts{0, 1, 2, 3};
  std::vector<OrderedPut> puts;
  ASSERT_TRUE(verify(shape,
                     build_all(*find_algorithm(Collective::kGather, "linear").value(), shape, {}),
                     0, &puts));
  const auto share = [&](int64_t bytes) {
    return prove_link_sharing(fabric, shape, hosts, puts, bytes);
  };
  // 2000 MB/s for 10 us: 20 000 bytes are under way, of 3 senders.
  EXPECT_FALSE(share(0).holds);
  EXPECT_FALSE(share(6667).holds);
  const LinkSharing small = share(6666);
  EXPECT_TRUE(small.holds);
  ASSERT_EQ(small.small.size(), 1u);
  EXPECT_THAT(small.small[0], HasSubstr("3 puts of 19998 in all"));
}

TEST(LinkSharing, TheToolProvesTokensAheadInTime) {
  const auto ran = run_tool("ib_sched",
                            "verify --collective gather --algorithm all --layout 8x1 --size 100K "
                            "--network single-switch:8,latency=10us --json -");
  EXPECT_EQ(ran.status, 1);  // linear shares the root's link
  int ahead = 0, at_end = 0;
  for (const auto& line : json_lines(ran.out)) {
    if (line["algorithm"] != "contention_free") continue;
    EXPECT_EQ(line["network_holds"], true);
    if (!line.contains("tokens")) {
      ++at_end;
      continue;
    }
    ++ahead;
    EXPECT_GE(line["network_jitter_us"].get<double>(), 0);
    EXPECT_GT(line["network_plan_us"].get<double>(), 7 * 102400 / 2000.0);
  }
  EXPECT_EQ(ahead, 1);
  EXPECT_EQ(at_end, 1);
}

TEST(LinkSharing, TheToolNamesPairsAndExits) {
  const auto holds =
      run_tool("ib_sched",
               "verify --algorithm two_level_ring --layout 6x2 --network single-switch:6 --json -");
  EXPECT_EQ(holds.status, 0) << holds.err;
  const auto lines = json_lines(holds.out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["network_holds"], true);
  const auto shared =
      run_tool("ib_sched", "verify --algorithm ring --layout 6x2 --network single-switch:6");
  EXPECT_EQ(shared.status, 1);
  EXPECT_THAT(shared.out, HasSubstr("may run at once"));
  expect_refused("ib_sched", "verify --algorithm ring --layout 6x2 --network single-switch:5",
                 "6 servers on a network of 5 hosts");
  expect_refused("ib_sched", "verify --algorithm ring --layout 40x8 --network single-switch:40",
                 "up to 256 with --network");
}

}  // namespace
}  // namespace ibcoll
