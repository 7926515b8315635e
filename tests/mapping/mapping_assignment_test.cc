/// Placement as an assignment problem: its tables, tabu search and breeding.

#include <gtest/gtest.h>

#include <numeric>

#include "studies/mapping/breed.h"
#include "studies/mapping/patterns.h"
#include "studies/mapping/small.h"
#include "studies/mapping/symmetries.h"
#include "studies/mapping/tabu.h"
#include "tests/mapping/mapping_figures.h"

namespace ibcoll::topology {
namespace {

constexpr int kMostSlots = 256;

Placement random_placement(int tasks, const Network& network, const Room& room, uint64_t seed) {
  std::vector<int> nodes;
  for (int node = 0; node < node_count(network); ++node) {
    if (room.allows(node)) nodes.insert(nodes.end(), room.per_node, node);
  }
  std::shuffle(nodes.begin(), nodes.end(), std::mt19937_64(seed));
  nodes.resize(tasks);
  return nodes;
}

/// Nodes in a line whose ways down have twice as many hops as those up.
RoutedNetwork steep_line(int nodes) {
  RoutedNetwork line =
      RoutedNetwork::create("line", nodes, std::vector<double>(3 * nodes, 1e9)).value();
  for (int from = 0; from < nodes; ++from) {
    std::vector<RoutedNetwork::Route> routes(nodes);
    for (int to = 0; to < nodes; ++to) {
      for (int at = from; at < to; ++at) routes[to].push_back(at);
      for (int at = 2 * from; at > 2 * to; --at) routes[to].push_back(nodes + at);
    }
    EXPECT_TRUE(line.add_source(routes));
  }
  return line;
}

struct Problem {
  const char* name;
  CommMatrix matrix;
  Network network;
  Room room = {};
  Goal goal = {};
};

std::vector<Problem> problems() {
  Room holes{1, std::vector<char>(40, 1)};
  holes.usable[3] = holes.usable[17] = 0;
  std::vector<Problem> list;
  list.push_back({"full mesh, whole bytes", *random_sparse(30, 9, 1), grid_of("mesh:5x6")});
  list.push_back({"torus, parts of bytes", *random_geometric(31, 6, 2), grid_of("torus:4x8")});
  list.push_back(
      {"several a node, idle places", *random_sparse(33, 5, 3), grid_of("torus:4x3"), {3, {}}});
  list.push_back({"nodes left out", *random_sparse(20, 5, 4), grid_of("mesh:5x8"), holes});
  list.push_back(
      {"torus as a mesh", *random_sparse(24, 7, 5), grid_of("torus:4x6"), {}, {.mesh_hops = true}});
  list.push_back({"more hops down than up", *stencil({4, 5}, false), steep_line(20)});
  return list;
}

double hops(const Problem& problem, const Placement& placement) {
  const Evaluation evaluation = evaluate(problem.matrix, problem.network, placement);
  return problem.goal.mesh_hops ? evaluation.hop_bytes_mesh : evaluation.hop_bytes;
}

TEST(Assignment, ValuesAreHopBytes) {
  for (const Problem& test : problems()) {
    SCOPED_TRACE(test.name);
    const auto made = Assignment::of(test.matrix, test.network, test.room, test.goal, kMostSlots);
    ASSERT_TRUE(made.has_value());
    const int tasks = test.matrix.tasks();
    const Placement first = random_placement(tasks, test.network, test.room, 1);
    EXPECT_EQ(made->placement(made->slots_of(first)), first);
    const double unit = hops(test, first) / made->value(made->slots_of(first));
    for (uint64_t seed = 2; seed < 6; ++seed) {
      const Placement other = random_placement(tasks, test.network, test.room, seed);
      const double value = made->value(made->slots_of(other)) * unit;
      EXPECT_NEAR(value, hops(test, other), 1e-6 * value);
    }
  }
}

TEST(Assignment, WhatTheTablesCannotSayIsLeftOut) {
  const CommMatrix one_way = *CommMatrix::from_flows(9, {{0, 1, 5}, {4, 7, 2}});
  EXPECT_FALSE(Assignment::of(one_way, steep_line(9), {}, {}, kMostSlots));
  EXPECT_TRUE(Assignment::of(one_way, grid_of("mesh:9"), {}, {}, kMostSlots));
  EXPECT_FALSE(Assignment::of(one_way, grid_of("mesh:9"), {}, {}, 8));
  EXPECT_FALSE(Assignment::of(*CommMatrix::from_flows(9, {}), grid_of("mesh:9"), {}, {}, 9));
}

TEST(Tabu, DescendsByTheBestExchangeOfAll) {
  for (const Problem& test : problems()) {
    SCOPED_TRACE(test.name);
    const auto made = Assignment::of(test.matrix, test.network, test.room, test.goal, kMostSlots);
    ASSERT_TRUE(made.has_value());
    TabuSearch search(*made, 1);
    search.start(made->slots_of(random_placement(test.matrix.tasks(), test.network, test.room, 7)));
    const double precision = 1e-5 * search.best_value();
    int exchanges = 0;
    for (bool descends = true; descends; ++exchanges) {
      std::vector<int> slot_of = search.best();
      const double value = search.best_value();
      ASSERT_NEAR(made->value(slot_of), value, precision);
      double lowest = value;
      for (int a = 0; a < made->slots; ++a) {
        for (int b = a + 1; b < made->slots; ++b) {
          std::swap(slot_of[a], slot_of[b]);
          lowest = std::min(lowest, made->value(slot_of));
          std::swap(slot_of[a], slot_of[b]);
        }
      }
      search.run(1, [] { return false; });
      ASSERT_NEAR(search.best_value(), lowest, precision) << exchanges << " exchanges before";
      descends = lowest < value - precision;
    }
    EXPECT_GT(exchanges, 5);
  }
}

TEST(Tabu, LeavesLocalOptimaAndKeepsTheBest) {
  int better = 0;
  for (const Problem& test : problems()) {
    SCOPED_TRACE(test.name);
    const auto made = Assignment::of(test.matrix, test.network, test.room, test.goal, kMostSlots);
    ASSERT_TRUE(made.has_value());
    TabuSearch search(*made, 3);
    search.start(made->slots_of(random_placement(test.matrix.tasks(), test.network, test.room, 8)));
    // Far beyond a descent, and beyond the tables' renewal.
    search.run(100, [] { return false; });
    const double early = search.best_value();
    search.run(6000, [] { return false; });
    EXPECT_LE(search.best_value(), early);
    better += search.best_value() < early ? 1 : 0;
    EXPECT_EQ(search.exchanges(), 6100);
    EXPECT_NEAR(made->value(search.best()), search.best_value(), 1e-9 * early);
    EXPECT_TRUE(check_placement(made->placement(search.best()), test.network, test.room,
                                test.matrix.tasks()));
    search.run(1000, [] { return true; });
    EXPECT_EQ(search.exchanges(), 6100);
  }
  EXPECT_GE(better, 4);
}

TEST(Symmetries, ImagesOfAPlacementAreFoundAgain) {
  const Grid mesh = grid_of("mesh:4x4"), torus = grid_of("torus:5x3"),
             cuboid = grid_of("mesh:3x2x3");
  const auto expect_found = [](const Grid& grid, const auto& image, bool mesh_hops, bool found) {
    const Placement model = random_placement(grid.nodes() - 1, grid, {}, 9);
    Placement moved;
    for (const int node : model) moved.push_back(image(node));
    const Placement aligned = Symmetries(grid, {}, mesh_hops).aligned(moved, model);
    EXPECT_EQ(aligned == model, found) << grid.name();
    const CommMatrix matrix = *random_sparse(grid.nodes() - 1, 4, 10);
    const Evaluation before = evaluate(matrix, grid, moved),
                     after = evaluate(matrix, grid, aligned);
    if (mesh_hops) {
      EXPECT_DOUBLE_EQ(before.hop_bytes_mesh, after.hop_bytes_mesh);
    } else {
      EXPECT_DOUBLE_EQ(before.hop_bytes, after.hop_bytes);
    }
  };
  expect_found(
      mesh, [](int n) { return n % 4 * 4 + n / 4; }, false, true);
  expect_found(
      mesh, [](int n) { return n / 4 * 4 + 3 - n % 4; }, false, true);
  const auto shift_and_flip = [](int n) { return (n / 5 + 1) % 3 * 5 + (7 - n % 5) % 5; };
  expect_found(torus, shift_and_flip, false, true);
  expect_found(torus, shift_and_flip, true, false);
  expect_found(
      torus, [](int n) { return n / 5 * 5 + 4 - n % 5; }, true, true);
  expect_found(
      cuboid, [](int n) { return n % 3 * 6 + n / 3 % 2 * 3 + n / 6; }, false, true);
  expect_found(
      mesh, [](int n) { return (n + 1) % 16; }, false, false);

  const Placement any = random_placement(15, mesh, {}, 1),
                  other = random_placement(15, mesh, {}, 2);
  EXPECT_EQ(Symmetries(mesh, {1, std::vector<char>(16, 1)}, false).aligned(any, other), any);
  EXPECT_EQ(Symmetries(steep_line(16), {}, false).aligned(any, other), any);
}

TEST(Breed, FindsTheOptimumWhereItIsKnown) {
  BreedOptions options;
  options.limits = {1e9, 3'000'000};
  const Grid square = grid_of("mesh:7x7"), cube = grid_of("torus:4x4x4"), few = grid_of("mesh:3x3");
  const CommMatrix grid = scrambled(*stencil({7, 7}, false), 4);
  EXPECT_DOUBLE_EQ(
      checked(grid, square, {}, breed(grid, square, {}, {}, options).value()).hop_bytes,
      grid.total_bytes());
  const CommMatrix hypercube = scrambled(*butterfly(64), 5);
  EXPECT_DOUBLE_EQ(
      checked(hypercube, cube, {}, breed(hypercube, cube, {}, {}, options).value()).hop_bytes,
      hypercube.total_bytes());
  const CommMatrix small = *random_sparse(8, 4, 6);
  EXPECT_DOUBLE_EQ(checked(small, few, {}, breed(small, few, {}, {}, options).value()).hop_bytes,
                   checked(small, few, {}, exhaustive(small, few, {}, {}).value()).hop_bytes);
  // Several tasks a node and nodes left out.
  const Room room{4, {1, 0, 1, 1, 1, 1, 1, 1, 1}};
  const CommMatrix groups = scrambled(*cliques(32, 4), 7);
  const Placement placed = breed(groups, few, room, {}, options).value();
  const double inside = 32 * 3 * 65536.0;
  EXPECT_LE(checked(groups, few, room, placed).hop_bytes, 2 * (groups.total_bytes() - inside));
}

TEST(Breed, StartsAreParentsAndSeedsDecide) {
  const Grid grid = grid_of("mesh:6x6");
  const CommMatrix matrix = scrambled(*stencil({6, 6}, false), 8);
  BreedOptions options;
  options.limits = {1e9, 1};
  std::vector<Placement> offered;
  options.offer = [&](const Placement& placement) { offered.push_back(placement); };
  const Placement start = refine(matrix, grid, {}, moves(0, 1000));
  EXPECT_EQ(breed(matrix, grid, {}, std::vector<Placement>{start}, options), start);
  EXPECT_EQ(offered, std::vector<Placement>{start}) << "no more moves than allowed";
  options.limits.seconds = 0;
  EXPECT_EQ(breed(matrix, grid, {}, std::vector<Placement>{start}, options), start) << "no time";
  options.limits = {1e9, 200'000};
  const CommMatrix random = *random_sparse(36, 6, 9);
  const auto first = breed(random, grid, {}, {}, options);
  EXPECT_EQ(breed(random, grid, {}, {}, options), first);
  options.seed = 2;
  EXPECT_NE(breed(random, grid, {}, {}, options), first);
  EXPECT_FALSE(breed(*random_sparse(300, 6, 9), grid_of("mesh:15x20"), {}, {}, options));
}

}  // namespace
}  // namespace ibcoll::topology
