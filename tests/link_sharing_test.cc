// Whether puts that nothing orders share links of a network.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/algorithms/registry.h"
#include "engine/planner/link_sharing.h"
#include "engine/schedule/layout.h"
#include "tests/tool.h"
#include "topology/spec.h"

namespace ibcoll {
namespace {

using testing::AllOf;
using testing::HasSubstr;
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
