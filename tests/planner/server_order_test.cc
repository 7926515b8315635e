// Numbering servers after the network.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/planner/server_order.h"
#include "engine/schedule/layout.h"
#include "studies/mapping/random.h"
#include "studies/simulate/collective.h"
#include "topology/generators.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;
using topology::Fabric;

std::vector<int> shuffled(int count, uint64_t seed) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  topology::FastRandom random(seed);
  for (int i = count - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

TEST(ServerOrder, FindsTheTreeWhateverHostsAreCalled) {
  const Shape shape = parse_layout("64x2").value();
  const std::vector<int> natural = [] {
    std::vector<int> hosts(64);
    std::iota(hosts.begin(), hosts.end(), 0);
    return hosts;
  }();
  for (const int taper : {1, 2}) {
    const Fabric tree = topology::k_ary_n_tree(4, 3, taper).value();
    const double best = walk_seconds(tree, shape, natural, natural);
    for (const uint64_t seed : {1, 2, 3}) {
      const auto mixed = shuffled(64, seed);
      // The job's servers lie on the tree's hosts in any order.
      const ServerOrder placed = fabric_server_order(tree, shape, mixed);
      EXPECT_GT(placed.before, 1.5 * best);
      EXPECT_DOUBLE_EQ(placed.after, best);
      // The hosts themselves are numbered in any order.
      const Fabric renamed = tree.with_hosts(mixed).value();
      const ServerOrder found = fabric_server_order(renamed, shape, natural);
      EXPECT_GT(found.before, 1.5 * best);
      EXPECT_LE(found.after, 1.02 * best);
      EXPECT_DOUBLE_EQ(walk_seconds(renamed, shape, natural, found.order), found.after);
    }
  }
}

TEST(ServerOrder, OnAFullTreeEveryStepRunsAtLinkRate) {
  const Fabric tree = topology::k_ary_n_tree(4, 3).value();
  const Shape shape = parse_layout("64x8").value();
  const ServerOrder order = fabric_server_order(tree, shape, shuffled(64, 9));
  EXPECT_DOUBLE_EQ(order.after, 63 * 64 / 2000e6);
}

TEST(ServerOrder, IsNeverWorseThanBefore) {
  for (const char* layout : {"1", "2,1", "3,1,2,2,5,1,1", "20x3"}) {
    const Shape shape = parse_layout(layout).value();
    for (const bool torus : {true, false}) {
      const Fabric grid = topology::grid_fabric({5, 4}, torus).value();
      auto hosts = shuffled(20, 4);
      hosts.resize(shape.servers());
      const ServerOrder found = fabric_server_order(grid, shape, hosts);
      EXPECT_LE(found.after, found.before);
      EXPECT_TRUE(renumber_servers(shape, found.order).has_value());
    }
  }
}

TEST(ServerOrder, RenumberedServersKeepTheirRanks) {
  const Shape shape = parse_layout("2,3,1").value();
  const Shape renumbered = renumber_servers(shape, std::vector<int>{2, 0, 1}).value();
  EXPECT_EQ(renumbered.ranks(), 6);
  for (Rank rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(renumbered.server_of(rank), (shape.server_of(rank) + 1) % 3);
  }
  const auto message = [&](std::vector<int> order) {
    return renumber_servers(shape, order).error().message;
  };
  EXPECT_THAT(message({0, 1}), HasSubstr("order of 2 servers for 3"));
  EXPECT_THAT(message({0, 1, 1}), HasSubstr("server 1 at place 2"));
  EXPECT_THAT(message({0, 3, 1}), HasSubstr("server 3 at place 1"));
}

TEST(ServerOrder, GainsItsWorthInSimulation) {
  const Fabric tree = topology::k_ary_n_tree(3, 3).value();
  const Shape shape = parse_layout("27x3").value();
  const auto hosts = shuffled(27, 5);
  const ServerOrder found = fabric_server_order(tree, shape, hosts);
  const auto time_us = [&](const std::vector<int>& order) {
    sim::CollectiveOptions options;
    options.run.block_bytes = 65536;
    for (const int server : order) options.hosts.push_back(hosts[server]);
    const Algorithm* algorithm = *find_algorithm(Collective::kAlltoall, "two_level_ring");
    return sim::simulate(*algorithm, renumber_servers(shape, order).value(), tree, options)
        .value()
        .time_us;
  };
  std::vector<int> as_it_was(27);
  std::iota(as_it_was.begin(), as_it_was.end(), 0);
  const double gain = time_us(as_it_was) / time_us(found.order);
  EXPECT_GT(gain, 0.7 * found.before / found.after);
  EXPECT_LT(gain, 1.25 * found.before / found.after);
}

}  // namespace
}  // namespace ibcoll
