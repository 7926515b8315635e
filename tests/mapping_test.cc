/// Task mapping: the paper's figures, searches against the optimum, odd networks. Every result is
/// checked by figures worked out here, apart from the library's own evaluation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "topology/mapping/bounds.h"
#include "topology/mapping/embed.h"
#include "topology/mapping/fabric_network.h"
#include "topology/mapping/halving.h"
#include "topology/mapping/patterns.h"
#include "topology/mapping/refine.h"
#include "topology/mapping/small.h"
#include "topology/mapping/starts.h"
#include "topology/mapping/tile.h"
#include "topology/spec.h"

namespace ibcoll::topology {
namespace {

struct Figures {
  double hop_bytes = 0, hop_bytes_mesh = 0, max_link_bytes = 0;
};

/// Walks every message hop by hop, links named by their two ends and what way they go.
Figures recompute(const CommMatrix& matrix, const Grid& grid, const Placement& placement) {
  Figures figures;
  std::map<std::vector<int>, double> links;
  const std::vector<int>& sides = grid.sides();
  for (const Flow& flow : matrix.flows()) {
    std::vector<int> at, end;
    for (int a = placement[flow.from], b = placement[flow.to], d = 0; d < grid.dimensions(); ++d) {
      at.push_back(a % sides[d]);
      end.push_back(b % sides[d]);
      a /= sides[d];
      b /= sides[d];
    }
    for (int d = 0; d < grid.dimensions(); ++d) {
      const int straight = end[d] - at[d];
      figures.hop_bytes_mesh += flow.bytes * std::abs(straight);
      int sign = straight > 0 ? 1 : -1;
      if (grid.torus() && 2 * std::abs(straight) > sides[d]) sign = -sign;
      while (at[d] != end[d]) {
        std::vector<int> link = at;
        link.push_back(d);
        link.push_back(sign);
        links[link] += flow.bytes;
        figures.hop_bytes += flow.bytes;
        at[d] = (at[d] + sign + sides[d]) % sides[d];
      }
    }
  }
  for (const auto& [link, bytes] : links) {
    figures.max_link_bytes = std::max(figures.max_link_bytes, bytes);
  }
  return figures;
}

/// Checks that the placement fits the room, and the library's figures against those worked out
/// here.
Figures checked(const CommMatrix& matrix, const Grid& grid, const Room& room,
                const Placement& placement) {
  EXPECT_EQ(placement.size(), static_cast<size_t>(matrix.tasks()));
  std::map<int, int> on_node;
  for (const int node : placement) {
    EXPECT_TRUE(node >= 0 && node < grid.nodes() && room.allows(node)) << node;
    EXPECT_LE(++on_node[node], room.per_node);
  }
  const Figures figures = recompute(matrix, grid, placement);
  const Evaluation evaluation = evaluate(matrix, grid, placement);
  EXPECT_NEAR(evaluation.hop_bytes, figures.hop_bytes, 1e-9 * figures.hop_bytes);
  EXPECT_NEAR(evaluation.hop_bytes_mesh, figures.hop_bytes_mesh, 1e-9 * figures.hop_bytes_mesh);
  EXPECT_NEAR(evaluation.max_link_bytes, figures.max_link_bytes, 1e-9 * figures.max_link_bytes);
  EXPECT_EQ(evaluation.link_bytes.size(), static_cast<size_t>(grid.usable_links()));
  return figures;
}

Grid grid_of(const char* text) { return Grid::parse(text).value(); }

CommMatrix scrambled(const CommMatrix& matrix, uint64_t seed) {
  std::vector<int> name(matrix.tasks());
  std::iota(name.begin(), name.end(), 0);
  std::shuffle(name.begin(), name.end(), std::mt19937_64(seed));
  return matrix.renamed(name);
}

RefineOptions moves(double link_share, int64_t count, uint64_t seed = 1) {
  RefineOptions options;
  options.goal.link_share = link_share;
  options.limits = {1e9, count};
  options.seed = seed;
  return options;
}

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
  EXPECT_THAT(refused.error().message, testing::HasSubstr("10 tasks on the 9 nodes"));
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

TEST(Mapping, SmallCasesReachTheOptimum) {
  const char* networks[] = {"torus:7", "mesh:2x3", "torus:5", "mesh:7", "torus:2x3", "mesh:3x2"};
  int cases = 0, hits = 0;
  for (int i = 0; i < 18; ++i) {
    const Grid grid = grid_of(networks[i % 6]);
    const int tasks = std::max(2, grid.nodes() - i % 3);
    const CommMatrix matrix = *random_sparse(tasks, std::min(2 + i % 3, tasks - 1), 100 + i);
    for (const double share : {0.0, 1.0}) {
      Goal goal;
      goal.link_share = share;
      const Figures best = checked(matrix, grid, {}, exhaustive(matrix, grid, {}, goal).value());
      const Figures found =
          checked(matrix, grid, {}, refine(matrix, grid, {}, moves(share, 60000)));
      ++cases;
      if (share == 0) {
        EXPECT_GE(found.hop_bytes, best.hop_bytes * (1 - 1e-12));
        hits += found.hop_bytes <= best.hop_bytes * (1 + 1e-12);
      } else {
        EXPECT_GE(found.max_link_bytes, best.max_link_bytes * (1 - 1e-12));
        hits += found.max_link_bytes <= best.max_link_bytes * (1 + 1e-12);
      }
    }
  }
  EXPECT_GE(hits, 0.95 * cases);
}

TEST(Mapping, FullNineTasksReachTheOptimum) {
  int cases = 0, hits = 0;
  for (int i = 0; i < 20; ++i) {
    const Grid grid = grid_of(i % 2 == 0 ? "torus:3x3" : "mesh:3x3");
    const CommMatrix matrix = *random_sparse(9 - i % 3, 3, 200 + i);
    for (const double share : {0.0, 1.0}) {
      Goal goal;
      goal.link_share = share;
      const Figures best = checked(matrix, grid, {}, exhaustive(matrix, grid, {}, goal).value());
      const Figures found =
          checked(matrix, grid, {}, refine(matrix, grid, {}, moves(share, 200000)));
      ++cases;
      hits += share == 0 ? found.hop_bytes <= best.hop_bytes * (1 + 1e-12)
                         : found.max_link_bytes <= best.max_link_bytes * (1 + 1e-12);
    }
  }
  EXPECT_GE(hits, 0.95 * cases);
}

TEST(Mapping, ScrambledStencilsReachTheOptimum) {
  struct Case {
    const char* network;
    std::vector<int> sides;
    bool periodic;
  };
  const Case cases[] = {
      {"torus:8x8x8", {8, 8, 8}, true},     {"torus:16x16x16", {16, 16, 16}, true},
      {"torus:64x64", {64, 64}, true},      {"mesh:64x64", {64, 64}, false},
      {"torus:12x10x3", {3, 12, 10}, true}, {"torus:8x8", {5, 7}, false},
      {"mesh:6x5x4", {4, 6, 5}, false},     {"torus:2x2x2x2", {2, 2, 2, 2}, true},
      {"mesh:1x30", {30}, false},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.network);
    const Grid grid = grid_of(test.network);
    const CommMatrix matrix = scrambled(*stencil(test.sides, test.periodic), 3);
    for (const double share : {0.0, 1.0}) {
      const Figures refined =
          checked(matrix, grid, {}, refine(matrix, grid, {}, moves(share, 1000)));
      // One hop a message, one message a link and direction.
      EXPECT_DOUBLE_EQ(refined.hop_bytes, matrix.total_bytes());
      EXPECT_DOUBLE_EQ(refined.max_link_bytes, matrix.largest());
    }
  }
}

TEST(Mapping, StencilsAreFollowedRoundNodesInUseAndUnderLightMessages) {
  // A 5 x 7 part of a torus, its corner nodes in use, and a stencil with light diagonals.
  const Grid grid = grid_of("torus:8x8");
  Room room{1, std::vector<char>(64, 1)};
  for (const int node : {0, 7, 56, 63}) room.usable[node] = 0;
  const CommMatrix plain = scrambled(*stencil({5, 7}, false), 1);
  const auto found = embed(plain, grid, room, {});
  ASSERT_TRUE(found.has_value());
  EXPECT_DOUBLE_EQ(checked(plain, grid, room, *found).hop_bytes, plain.total_bytes());

  std::vector<Flow> flows = stencil({6, 6}, false)->flows();
  for (int task = 0; task + 7 < 36; ++task) flows.push_back({task, task + 7, 1000});
  const CommMatrix matrix = scrambled(*CommMatrix::from_flows(36, flows), 2);
  EXPECT_FALSE(embed(matrix, grid_of("mesh:6x6"), {}, {})) << "diagonals take two hops";
  const auto heavy = embed(matrix, grid_of("mesh:6x6"), {}, {.significant = 0.5});
  ASSERT_TRUE(heavy.has_value());
  EXPECT_LT(checked(matrix, grid_of("mesh:6x6"), {}, *heavy).hop_bytes,
            1.05 * matrix.total_bytes());
  // What doesn't fit: too many partners, rings of odd length on a mesh, several tasks a node.
  EXPECT_FALSE(embed(*cliques(16, 8), grid_of("torus:4x4"), {}, {}));
  EXPECT_FALSE(embed(*stencil({9}, true), grid_of("mesh:3x3"), {}, {}));
  EXPECT_FALSE(embed(plain, grid, {2, {}}, {}));
}

TEST(Mapping, GeometricGraphsComeOutNearTheBound) {
  const Grid grid = grid_of("torus:6x6x6");
  const CommMatrix matrix = scrambled(*random_geometric(216, 8, 3), 3);
  const Figures refined = checked(matrix, grid, {}, refine(matrix, grid, {}, moves(0, 150000)));
  EXPECT_LE(refined.hop_bytes, 1.6 * lower_bounds(matrix, grid, {}).hop_bytes);
}

TEST(Mapping, TilesOfEqualFoursCoverATorusOnce) {
  const CommMatrix matrix = *bruck_allgather(512);
  const auto units = equal_fours(matrix);
  ASSERT_TRUE(units.has_value());
  EXPECT_EQ(units->count(), 128);
  EXPECT_EQ(units->turns.size(), 4u) << "a ring of four";
  const Grid grid = grid_of("torus:8x8x8");
  const auto tiling = tile_torus(matrix, *units, grid);
  ASSERT_TRUE(tiling.has_value());
  std::vector<int> nodes = tiling->nodes;
  std::sort(nodes.begin(), nodes.end());
  for (int node = 0; node < grid.nodes(); ++node) ASSERT_EQ(nodes[node], node);
  EXPECT_EQ(tiling->largest, matrix.largest()) << "no link carries more than one heavy message";
  // Groups that differ inside, tasks left over, networks without a fitting lattice.
  EXPECT_FALSE(equal_fours(*random_sparse(64, 4, 1)));
  EXPECT_FALSE(equal_fours(*bruck_allgather(6)));
  EXPECT_FALSE(tile_torus(matrix, *units, grid_of("mesh:8x8x8")));
  EXPECT_FALSE(tile_torus(matrix, *units, grid_of("torus:2x16x16")));
}

TEST(Mapping, TilingBeatsMergingOnTheLargestLink) {
  const CommMatrix matrix = *bruck_allgather(512);
  const Grid grid = grid_of("torus:8x8x8");
  const Figures merged = checked(matrix, grid, {}, mopt(matrix, grid, JoinRule::kMinLink).value());
  const Figures refined = checked(matrix, grid, {}, refine(matrix, grid, {}, moves(1, 20000)));
  EXPECT_LT(refined.max_link_bytes, 0.95 * merged.max_link_bytes);
}

TEST(Mapping, NothingIsBelowTheBounds) {
  for (const char* network : {"torus:4x4x4", "mesh:8x8", "torus:5x13", "mesh:70"}) {
    const Grid grid = grid_of(network);
    for (const CommMatrix& matrix : {*random_sparse(60, 5, 3), *bruck_allgather(64),
                                     *stencil({4, 4, 4}, true), *power_law(50, 3, 9)}) {
      const Bounds bounds = lower_bounds(matrix, grid, {});
      const Figures figures = checked(matrix, grid, {}, refine(matrix, grid, {}, moves(0.5, 2000)));
      EXPECT_LE(bounds.hop_bytes, figures.hop_bytes * (1 + 1e-12)) << network;
      EXPECT_LE(bounds.max_link_bytes, figures.max_link_bytes * (1 + 1e-12)) << network;
      EXPECT_GT(bounds.hop_bytes, 0);
    }
  }
  // The identity is best for a stencil, and the bounds say so.
  const Grid grid = grid_of("torus:4x4x4");
  const CommMatrix matrix = *stencil({4, 4, 4}, true);
  const Figures identity = checked(matrix, grid, {}, in_order(64, grid, {}));
  const Bounds bounds = lower_bounds(matrix, grid, {});
  EXPECT_DOUBLE_EQ(bounds.hop_bytes, identity.hop_bytes);
  EXPECT_DOUBLE_EQ(bounds.max_link_bytes, identity.max_link_bytes);
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
    EXPECT_DOUBLE_EQ(evaluation.max_link_bytes, *std::ranges::max_element(seconds) * 2000e6);
    const Bounds bounds = lower_bounds(matrix, network, {});
    EXPECT_DOUBLE_EQ(bounds.hop_bytes, hops);
    EXPECT_LE(bounds.max_link_bytes, evaluation.max_link_bytes);
  }
}

TEST(Mapping, HalvingKeepsNeighboursTogether) {
  const Grid grid = grid_of("torus:8x8x8");
  const CommMatrix matrix = *random_geometric(512, 8, 3);
  const double ordered = checked(matrix, grid, {}, in_order(512, grid, {})).hop_bytes;
  EXPECT_LT(checked(matrix, grid, {}, place_by_halving(matrix, grid, {}, {})).hop_bytes,
            0.5 * ordered);
}

TEST(Mapping, SameSeedSamePlacement) {
  const Grid grid = grid_of("torus:4x4x4");
  const CommMatrix matrix = *random_geometric(64, 6, 5);
  EXPECT_EQ(refine(matrix, grid, {}, moves(0.5, 5000)), refine(matrix, grid, {}, moves(0.5, 5000)));
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
