/// Searches for placements, against the optimum where it is known and bounds where it is not.

#include <gtest/gtest.h>

#include "studies/mapping/bounds.h"
#include "studies/mapping/embed.h"
#include "studies/mapping/halving.h"
#include "studies/mapping/patterns.h"
#include "studies/mapping/small.h"
#include "studies/mapping/starts.h"
#include "studies/mapping/tile.h"
#include "studies/mapping/unit_anneal.h"
#include "tests/mapping/mapping_figures.h"

namespace ibcoll::topology {
namespace {

TEST(MappingSearch, SmallCasesReachTheOptimum) {
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

TEST(MappingSearch, FullNineTasksReachTheOptimum) {
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

TEST(MappingSearch, ScrambledStencilsReachTheOptimum) {
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

TEST(MappingSearch, StencilsAreFollowedRoundNodesInUseAndUnderLightMessages) {
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

TEST(MappingSearch, GeometricGraphsComeOutNearTheBound) {
  const Grid grid = grid_of("torus:6x6x6");
  const CommMatrix matrix = scrambled(*random_geometric(216, 8, 3), 3);
  const Figures refined = checked(matrix, grid, {}, refine(matrix, grid, {}, moves(0, 150000)));
  EXPECT_LE(refined.hop_bytes, 1.6 * lower_bounds(matrix, grid, {}).hop_bytes);
}

TEST(MappingSearch, TilesOfEqualFoursCoverATorusOnce) {
  const CommMatrix matrix = *bruck_allgather(512);
  const auto units = equal_fours(matrix);
  ASSERT_TRUE(units.has_value());
  EXPECT_EQ(units->count(), 128);
  EXPECT_EQ(units->turns.size(), 4u) << "a ring of four";
  const Grid grid = grid_of("torus:8x8x8");
  const std::vector<Tiling> tilings = tile_torus(matrix, *units, grid);
  ASSERT_FALSE(tilings.empty());
  for (const Tiling& tiling : tilings) {
    std::vector<int> nodes = tiling.nodes;
    std::sort(nodes.begin(), nodes.end());
    for (int node = 0; node < grid.nodes(); ++node) ASSERT_EQ(nodes[node], node);
    EXPECT_EQ(tiling.largest, matrix.largest()) << "no link carries more than one heavy message";
    checked(matrix, grid, {},
            placement_of(*units, tiling, lay_units(grid, tiling, order_of_units(matrix, *units))));
  }
  // Groups that differ inside, tasks left over, networks without a fitting lattice.
  EXPECT_FALSE(equal_fours(*random_sparse(64, 4, 1)));
  EXPECT_FALSE(equal_fours(*bruck_allgather(6)));
  EXPECT_TRUE(tile_torus(matrix, *units, grid_of("mesh:8x8x8")).empty());
  EXPECT_TRUE(tile_torus(matrix, *units, grid_of("torus:2x16x16")).empty());
}

TEST(MappingSearch, TilingBeatsMergingOnTheLargestLink) {
  const CommMatrix matrix = *bruck_allgather(512);
  const Grid grid = grid_of("torus:8x8x8");
  const Figures merged = checked(matrix, grid, {}, mopt(matrix, grid, JoinRule::kMinLink).value());
  const Figures refined = checked(matrix, grid, {}, refine(matrix, grid, {}, moves(1, 20000)));
  EXPECT_LT(refined.max_link_bytes, 0.9 * merged.max_link_bytes);
}

TEST(MappingSearch, FullTilingBeatsThePaperOnBruck) {
  const CommMatrix matrix = *bruck_allgather(4096);
  const Grid grid = grid_of("torus:16x16x16");
  const Figures refined = checked(matrix, grid, {}, refine(matrix, grid, {}, moves(1, 1000)));
  EXPECT_LT(refined.max_link_bytes, 5.85e6);  // the paper: 6.90e6
}

TEST(MappingSearch, NothingIsBelowTheBounds) {
  for (const char* network : {"torus:4x4x4", "mesh:8x8", "torus:5x13", "mesh:70"}) {
    const Grid grid = grid_of(network);
    for (const CommMatrix& matrix : {*random_sparse(60, 5, 3), *bruck_allgather(64),
                                     *stencil({4, 4, 4}, true), *power_law(50, 3, 9)}) {
      const Bounds bounds = lower_bounds(matrix, grid, {});
      const Figures figures = checked(matrix, grid, {}, refine(matrix, grid, {}, moves(0.5, 2000)));
      EXPECT_LE(bounds.hop_bytes, figures.hop_bytes * (1 + 1e-12)) << network;
      EXPECT_LE(bounds.max_link_load, figures.max_link_bytes * (1 + 1e-12)) << network;
      EXPECT_GT(bounds.hop_bytes, 0);
    }
  }
  // The identity is best for a stencil, and the bounds say so.
  const Grid grid = grid_of("torus:4x4x4");
  const CommMatrix matrix = *stencil({4, 4, 4}, true);
  const Figures identity = checked(matrix, grid, {}, in_order(64, grid, {}));
  const Bounds bounds = lower_bounds(matrix, grid, {});
  EXPECT_DOUBLE_EQ(bounds.hop_bytes, identity.hop_bytes);
  EXPECT_DOUBLE_EQ(bounds.max_link_load, identity.max_link_bytes);
}

TEST(MappingSearch, HalvingKeepsNeighboursTogether) {
  const Grid grid = grid_of("torus:8x8x8");
  const CommMatrix matrix = *random_geometric(512, 8, 3);
  const double ordered = checked(matrix, grid, {}, in_order(512, grid, {})).hop_bytes;
  EXPECT_LT(checked(matrix, grid, {}, place_by_halving(matrix, grid, {}, {})).hop_bytes,
            0.5 * ordered);
}

TEST(MappingSearch, SameSeedSamePlacement) {
  const Grid grid = grid_of("torus:4x4x4");
  const CommMatrix matrix = *random_geometric(64, 6, 5);
  EXPECT_EQ(refine(matrix, grid, {}, moves(0.5, 5000)), refine(matrix, grid, {}, moves(0.5, 5000)));
}

}  // namespace
}  // namespace ibcoll::topology
