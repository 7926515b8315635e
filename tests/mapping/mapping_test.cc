/// Task mapping: the paper's figures, odd networks and rooms, other fabrics. Every result is
/// checked by figures worked out apart from the library's own evaluation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "studies/mapping/bounds.h"
#include "studies/mapping/fabric_network.h"
#include "studies/mapping/halving.h"
#include "studies/mapping/patterns.h"
#include "studies/mapping/starts.h"
#include "tests/mapping/mapping_figures.h"
#include "topology/spec.h"

namespace ibcoll::topology {
namespace {

TEST(Mapping, PaperXyzOrder) {
  const Grid big = grid_of("torus:16x16x16"), small = grid_of("torus:8x8x8");
  const auto in_xyz = [](const CommMatrix& matrix, const Grid& grid) {
    return checked(matrix, grid, {}, in_order(matrix.tasks(), grid, {}));
  };
  const Figures bruck = in_xyz(*bruck_allgather(4096), big);
  EXPECT_NEAR(bruck.hop_bytes_mesh / 1e9, 223.28, 0.005);
  EXPECT_NEAR(bruck.hop_bytes / 1e9, 195.42, 0.005);
  EXPECT_NEAR(bruck.max_link_bytes / 1e6, 45.09, 0.005);
  const Figures cg = in_xyz(*npb_cg(512), small);
  EXPECT_NEAR(cg.hop_bytes_mesh / 1e9, 4.433, 0.0005);
  EXPECT_NEAR(cg.max_link_bytes / 1e6, 3.903, 0.0005);
  const Figures sp = in_xyz(*npb_sp(484), small);
  EXPECT_NEAR(sp.hop_bytes_mesh / 1e6, 1504, 0.5);
  EXPECT_NEAR(sp.max_link_bytes / 1e3, 1066.5, 0.05);
}

TEST(Mapping, PaperMoptOnBruck) {
  const Grid grid = grid_of("torus:16x16x16");
  const CommMatrix matrix = *bruck_allgather(4096);
  const auto placed = [&](JoinRule rule) {
    return checked(matrix, grid, {}, mopt(matrix, grid, rule).value());
  };
  const Figures none = placed(JoinRule::kNone);
  EXPECT_NEAR(none.hop_bytes_mesh / 1e9, 52.38, 0.005);
  EXPECT_NEAR(none.max_link_bytes / 1e6, 8.67, 0.005);
  EXPECT_LE(placed(JoinRule::kMinCost).hop_bytes_mesh / 1e9, 51.06);
  EXPECT_LE(placed(JoinRule::kMinLink).max_link_bytes / 1e6, 6.90);
}

TEST(Mapping, MoptKeepsPairsTogetherInTwoDimensions) {
  // Four heavy pairs in a light ring: each pair on neighbours, in every order of its tasks.
  std::vector<Flow> flows;
  for (int pair = 0; pair < 8; ++pair) {
    flows.push_back({pair, pair + 8, 1000});
    flows.push_back({pair, (pair + 1) % 8, 1});
  }
  const CommMatrix matrix = *CommMatrix::from_flows(16, flows);
  const Grid grid = grid_of("mesh:4x4");
  for (const JoinRule rule : {JoinRule::kNone, JoinRule::kMinCost, JoinRule::kMinLink}) {
    const Placement placement = mopt(matrix, grid, rule).value();
    for (int pair = 0; pair < 8; ++pair) {
      EXPECT_EQ(grid.distance(placement[pair], placement[pair + 8]), 1);
    }
    checked(matrix, grid, {}, placement);
  }
}

TEST(Mapping, OddNetworksAndRooms) {
  struct Case {
    const char* network;
    int tasks, per_node;
    std::vector<int> excluded;
  };
  const Case cases[] = {
      {"torus:5x7", 35, 1, {}},      {"mesh:5x7", 30, 1, {0, 6, 34}},
      {"torus:12x10x3", 350, 1, {}}, {"mesh:1x17", 17, 1, {}},
      {"torus:23", 20, 1, {3}},      {"torus:2x2x2x2x2", 32, 1, {}},
      {"mesh:4x3", 40, 4, {5}},      {"torus:4x4", 3, 1, {}},
      {"mesh:1x1", 8, 8, {}},        {"torus:3x2x1", 1, 1, {0, 1}},
      {"torus:3x5x2", 120, 4, {}},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.network);
    const Grid grid = grid_of(test.network);
    Room room{test.per_node, {}};
    if (!test.excluded.empty()) room.usable.assign(grid.nodes(), 1);
    for (const int node : test.excluded) room.usable[node] = 0;
    const CommMatrix matrix = *random_sparse(test.tasks, std::min(4, test.tasks - 1), 7);
    const double xyz = checked(matrix, grid, room, in_order(test.tasks, grid, room)).hop_bytes;
    for (const JoinRule rule : {JoinRule::kNone, JoinRule::kMinCost, JoinRule::kMinLink}) {
      checked(matrix, grid, room, mopt_in_room(matrix, grid, room, rule).value());
    }
    checked(matrix, grid, room, place_by_halving(matrix, grid, room, {}));
    for (const double share : {0.0, 0.5, 1.0}) {
      const Figures refined =
          checked(matrix, grid, room, refine(matrix, grid, room, moves(share, 500)));
      if (share == 0) {
        EXPECT_LE(refined.hop_bytes, xyz);
      }
    }
  }
}

TEST(Mapping, TooManyTasksAreRefusedWithTheNumbers) {
  const Grid grid = grid_of("torus:3x3");
  const CommMatrix matrix = *bruck_allgather(10);
  const auto refused = mopt(matrix, grid, JoinRule::kNone);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("10 tasks on the 9 nodes"));
  Room room{1, std::vector<char>(9, 1)};
  room.usable[4] = 0;
  EXPECT_FALSE(check_room(room, grid, 9));
  EXPECT_TRUE(check_room(room, grid, 8));
}

TEST(Mapping, WrongPlacementsAreFound) {
  const Network grid = grid_of("mesh:2x2");
  EXPECT_TRUE(check_placement({3, 1, 0}, grid, {}, 3));
  EXPECT_FALSE(check_placement({3, 1}, grid, {}, 3));
  EXPECT_FALSE(check_placement({3, 1, 1}, grid, {}, 3));
  EXPECT_FALSE(check_placement({3, 1, 4}, grid, {}, 3));
  EXPECT_FALSE(check_placement({3, 1, -1}, grid, {}, 3));
  EXPECT_FALSE(check_placement({3, 1, 0}, grid, {1, {1, 0, 1, 1}}, 3));
  EXPECT_TRUE(check_placement({3, 3, 0}, grid, {2, {}}, 3));
}

TEST(Mapping, AnyFabricIsMappedByItsRoutes) {
  const Fabric fabric = parse_fabric_spec("tree:4x4,trunk-bandwidth=500MB/s").value();
  ASSERT_EQ(fabric.hosts(), 16);
  const Network network = tabled_network(fabric).value();
  // Four cliques of four, dealt round the switches: each belongs under one switch.
  std::vector<Flow> flows;
  for (int a = 0; a < 16; ++a) {
    for (int b = a % 4; b < 16; b += 4) flows.push_back({a, b, 1000});
  }
  const CommMatrix matrix = *CommMatrix::from_flows(16, flows);
  for (const double share : {0.0, 1.0}) {
    const Placement placement = refine(matrix, network, {}, moves(share, 40000));
    ASSERT_TRUE(check_placement(placement, network, {}, 16));
    double hops = 0;
    std::vector<double> seconds(fabric.links(), 0);
    for (const Flow& flow : matrix.flows()) {
      for (const int link : fabric.route(placement[flow.from], placement[flow.to])) {
        hops += flow.bytes;
        seconds[link] += flow.bytes / fabric.link(link).bandwidth;
      }
    }
    EXPECT_DOUBLE_EQ(hops, 2 * matrix.total_bytes()) << "up to the switch and down";
    const Evaluation evaluation = evaluate(matrix, network, placement);
    EXPECT_DOUBLE_EQ(evaluation.hop_bytes, hops);
    EXPECT_DOUBLE_EQ(evaluation.max_link_load, *std::ranges::max_element(seconds) * 2000e6);
    const Bounds bounds = lower_bounds(matrix, network, {});
    EXPECT_DOUBLE_EQ(bounds.hop_bytes, hops);
    EXPECT_LE(bounds.max_link_load, evaluation.max_link_load);
  }
}

TEST(Mapping, TrafficInsideANodeCostsNothing) {
  const CommMatrix matrix = *cliques(32, 4);
  const Grid grid = grid_of("torus:8");
  const Room room{4, {}};
  const Figures figures = checked(matrix, grid, room, refine(matrix, grid, room, moves(0, 50000)));
  // Eight cliques of one node each in a ring of light messages.
  EXPECT_DOUBLE_EQ(figures.hop_bytes, 16 * 65536.0 / 8);
}

TEST(Mapping, NoTrafficIsMappedToo) {
  const CommMatrix matrix = *CommMatrix::from_flows(5, {});
  const Grid grid = grid_of("mesh:3x2");
  checked(matrix, grid, {}, refine(matrix, grid, {}, moves(1, 100)));
  checked(matrix, grid, {}, mopt(matrix, grid, JoinRule::kMinLink).value());
}

}  // namespace
}  // namespace ibcoll::topology
