/// Grids behind traffic, and how they fold into networks of other sides.

#include <gtest/gtest.h>

#include "studies/mapping/fold.h"
#include "studies/mapping/patterns.h"
#include "tests/mapping/mapping_figures.h"

namespace ibcoll::topology {
namespace {

/// Several times the same traffic among as many groups of tasks, dealt out by turns.
CommMatrix side_by_side(const CommMatrix& matrix, int copies) {
  std::vector<Flow> flows;
  for (int copy = 0; copy < copies; ++copy) {
    for (const Flow& flow : matrix.flows())
      flows.push_back({copies * flow.from + copy, copies * flow.to + copy, flow.bytes});
  }
  return *CommMatrix::from_flows(copies * matrix.tasks(), std::move(flows));
}

/// As heavy as the heaviest messages, from task to task at random.
CommMatrix with_foreign(const CommMatrix& matrix, int foreign, uint64_t seed) {
  std::vector<Flow> flows = matrix.flows();
  std::mt19937_64 random(seed);
  for (int i = 0; i < foreign; ++i) {
    const int from = static_cast<int>(random() % matrix.tasks());
    flows.push_back({from, static_cast<int>(random() % matrix.tasks()), matrix.largest()});
  }
  return *CommMatrix::from_flows(matrix.tasks(), std::move(flows));
}

/// Pairs of tasks that the pattern has beside each other.
size_t steps_of(const CommMatrix& matrix, const GridPattern& pattern) {
  size_t steps = 0;
  const int nodes = pattern.shape.nodes();
  for (const Flow& flow : matrix.flows()) {
    const int from = pattern.place[flow.from], to = pattern.place[flow.to];
    if (from < 0 || to < 0 || from / nodes != to / nodes) continue;
    steps += pattern.shape.distance(from % nodes, to % nodes) == 1 ? 1 : 0;
  }
  return steps;
}

TEST(GridPattern, IsFoundAmongScrambledTasks) {
  struct Case {
    const char* name;
    CommMatrix matrix;
    const char* shape;
    int copies;
    size_t foreign = 0;  ///< messages at most
  };
  const Case cases[] = {
      {"mesh", *stencil({6, 9}, false), "mesh:9x6", 1},
      {"torus", *stencil({4, 5, 6}, true), "torus:6x5x4", 1},
      {"hypercube", *butterfly(128), "torus:4x4x4x2", 1},
      {"two meshes", side_by_side(*stencil({8, 8}, false), 2), "mesh:8x8", 2},
      {"three tori", side_by_side(*stencil({4, 6}, true), 3), "torus:6x4", 3},
      {"torus and others", with_foreign(*stencil({8, 8, 8}, true), 20, 5), "torus:8x8x8", 1, 20},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    const CommMatrix matrix = scrambled(test.matrix, 6);
    const auto found = find_grid_pattern(matrix);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->shape.name(), test.shape);
    EXPECT_EQ(found->copies, test.copies);
    std::vector<int> places = found->place;
    std::sort(places.begin(), places.end());
    EXPECT_EQ(std::unique(places.begin(), places.end()), places.end()) << "one task a place";
    EXPECT_GE(steps_of(matrix, *found), matrix.pairs() - test.foreign);
  }
}

TEST(GridPattern, IsNotSeenInOtherTraffic) {
  EXPECT_FALSE(find_grid_pattern(*random_sparse(64, 4, 1)));
  EXPECT_FALSE(find_grid_pattern(*power_law(64, 2, 1)));
  EXPECT_FALSE(find_grid_pattern(*stencil({30}, true))) << "one dimension";
  EXPECT_FALSE(find_grid_pattern(*cliques(64, 8)));
  EXPECT_FALSE(find_grid_pattern(*CommMatrix::from_flows(9, {})));
  // Grids that are not alike.
  std::vector<Flow> flows = stencil({4, 6}, false)->flows();
  for (const Flow& flow : stencil({5, 5}, false)->flows())
    flows.push_back({24 + flow.from, 24 + flow.to, flow.bytes});
  EXPECT_FALSE(find_grid_pattern(*CommMatrix::from_flows(49, flows)));
}

double hops_of(const CommMatrix& matrix, const Grid& grid, bool mesh_hops = false) {
  const auto pattern = find_grid_pattern(matrix);
  if (!pattern) return -1;
  const Placement placement =
      fold(matrix, *pattern, grid, mesh_hops, 5000, 1, [] { return false; });
  if (placement.empty()) return -2;
  const Figures figures = checked(matrix, grid, {}, placement);
  return (mesh_hops ? figures.hop_bytes_mesh : figures.hop_bytes) / matrix.total_bytes();
}

TEST(Fold, ReachesWhatIsPossibleByHand) {
  // A line of 16 folds to two of 8, one end of the fold on one node, the other three hops away.
  const CommMatrix two = scrambled(side_by_side(*stencil({16, 16}, false), 2), 7);
  EXPECT_NEAR(hops_of(two, grid_of("torus:8x8x8")), (480 + 16) / 480.0, 1e-9);
  // Three digits in a ring of eight: 20 hops for 12 pairs.
  EXPECT_NEAR(hops_of(scrambled(*butterfly(512), 8), grid_of("torus:8x8x8")), 20 / 12.0, 1e-9);
  // Twice as long, half as high: one coordinate is folded onto the other.
  EXPECT_LT(hops_of(scrambled(*stencil({16, 4}, false), 9), grid_of("mesh:8x8")), 1.3);
  // Foreign messages have six hops on average.
  EXPECT_LT(hops_of(scrambled(with_foreign(*stencil({8, 8, 8}, true), 20, 5), 10),
                    grid_of("torus:8x8x8")),
            1.05);
  EXPECT_LT(hops_of(scrambled(*stencil({8, 8}, false), 11), grid_of("torus:4x4x4"), true), 1.7);
}

TEST(Fold, SaysWhatDoesNotFit) {
  const auto pattern = find_grid_pattern(*stencil({5, 5}, false));
  ASSERT_TRUE(pattern.has_value());
  const auto never = [] { return false; };
  EXPECT_TRUE(
      fold(*stencil({5, 5}, false), *pattern, grid_of("mesh:4x4"), false, 100, 1, never).empty());
  EXPECT_TRUE(fold(*stencil({5, 5}, false), *pattern, grid_of("mesh:5x5"), false, 100, 1, [] {
                return true;
              }).empty());
}

TEST(Fold, IsWhereRefineStarts) {
  const CommMatrix two = scrambled(side_by_side(*stencil({16, 16}, false), 2), 12);
  const Grid grid = grid_of("torus:8x8x8");
  EXPECT_LE(checked(two, grid, {}, refine(two, grid, {}, moves(0, 20000))).hop_bytes,
            1.034 * two.total_bytes());
}

}  // namespace
}  // namespace ibcoll::topology
