// What the routes of fabrics amount to, and pictures of fabrics.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "studies/fabrics/analysis.h"
#include "studies/fabrics/draw_fabric.h"
#include "topology/fabric_builder.h"
#include "topology/spec.h"

namespace ibcoll::topology {
namespace {

TEST(FabricStudies, LanesKeepRoutesFreeOfCreditLoops) {
  for (const char* spec : {"fat-tree:4,3", "torus:3x3", "mesh:4x4", "twelve-clusters:6"}) {
    const Fabric fabric = open_fabric(spec).value();
    EXPECT_TRUE(find_credit_loop(fabric).empty()) << spec;
    EXPECT_EQ(lanes_needed(fabric), 1) << spec;
  }
  for (const char* spec : {"torus:5x4", "torus:5x5x5", "dragonfly:2,4,2"}) {
    const Fabric fabric = open_fabric(spec).value();
    EXPECT_FALSE(find_credit_loop(fabric).empty()) << spec;
    EXPECT_GT(lanes_needed(fabric), 1) << spec;
    EXPECT_LE(lanes_needed(fabric), 6) << spec;
  }
}

TEST(FabricStudies, CreditLoopsAreFound) {
  // A ring of four switches whose routes all turn right, on one lane.
  FabricBuilder builder("ring");
  for (int i = 0; i < 4; ++i) builder.add_host(fmt::format("h{}", i));
  for (int i = 0; i < 4; ++i) builder.add_switch(fmt::format("s{}", i));
  const Cable cable{1e9, 100};
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(builder.connect(i, 1, 4 + i, 1, cable));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(builder.connect(4 + i, 2, 4 + (i + 1) % 4, 3, cable));
  ASSERT_TRUE(builder.begin_routes());
  for (int s = 0; s < 4; ++s) {
    for (int to = 0; to < 4; ++to) builder.set_port(4 + s, to, s == to ? 1 : 2);
  }
  const Fabric fabric = builder.finish().value();
  const std::vector<int> loop = find_credit_loop(fabric);
  ASSERT_EQ(loop.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(fabric.link(loop[i]).to, fabric.link(loop[(i + 1) % 4]).from);
  }
  EXPECT_EQ(lanes_needed(fabric), 2);
}

TEST(FabricStudies, AllToAllIsLimitedByTheNarrowestPart) {
  EXPECT_DOUBLE_EQ(all_to_all_limit(open_fabric("single-switch:24").value()).fraction, 1);
  EXPECT_DOUBLE_EQ(all_to_all_limit(open_fabric("fat-tree:4,3").value()).fraction, 1);
  // Of 15 peers 12 are behind two cables that four hosts share.
  const Fabric tapered = open_fabric("fat-tree:4,2,taper=2").value();
  EXPECT_DOUBLE_EQ(all_to_all_limit(tapered).fraction, 15.0 / 24);
  EXPECT_DOUBLE_EQ(all_to_all_limit(tapered).bandwidth, 2e9 * 15 / 24);
}

TEST(FabricStudies, NamesStayReadableOverCablesInPictures) {
  for (const char* spec : {"dragonfly:4,2,2", "torus:3x3", "fat-tree:4,2"}) {
    const auto fabric = parse_fabric_spec(spec);
    ASSERT_TRUE(fabric) << spec;
    const std::string picture = draw_fabric(*fabric);
    const size_t first_name = picture.find("halo\"");
    ASSERT_NE(first_name, std::string::npos) << spec;
    // Drawn after all cables, and with an edge that sets them off.
    EXPECT_LT(picture.find("<line"), first_name) << spec;
    EXPECT_EQ(picture.find("<line", first_name), std::string::npos) << spec;
    EXPECT_EQ(picture.find("<path", first_name), std::string::npos) << spec;
    EXPECT_NE(picture.find("paint-order:stroke"), std::string::npos) << spec;
  }
}

}  // namespace
}  // namespace ibcoll::topology
