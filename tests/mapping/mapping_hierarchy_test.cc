/// Hierarchies of processors as networks to map onto, and bounds that see where places differ.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "studies/mapping/bounds.h"
#include "studies/mapping/fabric_network.h"
#include "studies/mapping/gilmore_lawler.h"
#include "studies/mapping/halving.h"
#include "studies/mapping/matrix_file.h"
#include "studies/mapping/patterns.h"
#include "studies/mapping/small.h"
#include "studies/mapping/starts.h"
#include "tests/mapping/mapping_figures.h"
#include "topology/spec.h"

namespace ibcoll::topology {
namespace {

using ::testing::HasSubstr;

Hierarchy hierarchy_of(const char* groups, const char* distances) {
  return Hierarchy::parse(groups, distances).value();
}

/// Bytes x distance, with the groups found by counting nodes off.
double cost(const CommMatrix& matrix, const std::vector<int>& groups,
            const std::vector<int>& distances, const Placement& placement) {
  double sum = 0;
  for (const Flow& flow : matrix.flows()) {
    int from = placement[flow.from], to = placement[flow.to];
    size_t level = 0;
    int distance = 0;
    while (from != to) {
      distance = distances[level];
      from /= groups[level];
      to /= groups[level];
      ++level;
    }
    sum += flow.bytes * distance;
  }
  return sum;
}

TEST(Hierarchy, DistancesAndRoutesGoByTheSmallestCommonGroup) {
  const Hierarchy hierarchy = hierarchy_of("2:3:2", "1:10:100");
  EXPECT_EQ(hierarchy.nodes(), 12);
  EXPECT_EQ(hierarchy.name(), "hierarchy:2:3:2");
  EXPECT_EQ(hierarchy.distance(4, 4), 0);
  EXPECT_EQ(hierarchy.distance(4, 5), 1);
  EXPECT_EQ(hierarchy.distance(0, 5), 10);
  EXPECT_EQ(hierarchy.distance(5, 6), 100);
  const auto links_between = [&](int a, int b) {
    std::vector<int> links;
    hierarchy.route(a, b, [&](int link) { links.push_back(link); });
    return links;
  };
  EXPECT_TRUE(links_between(3, 3).empty());
  for (const auto& [a, b, length] : {std::tuple{0, 1, 2}, {0, 2, 4}, {0, 11, 6}}) {
    const std::vector<int> there = links_between(a, b), back = links_between(b, a);
    ASSERT_EQ(there.size(), static_cast<size_t>(length));
    ASSERT_EQ(back.size(), there.size());
    for (size_t i = 0; i < there.size(); ++i) {
      EXPECT_LT(there[i], hierarchy.links());
      EXPECT_EQ(there[i] / 2, back[there.size() - 1 - i] / 2) << "the same cable";
      EXPECT_NE(there[i], back[there.size() - 1 - i]) << "but the other direction";
    }
  }
}

TEST(Hierarchy, WrongOnesAreRefusedWithTheReason) {
  const auto refused = [](const char* groups, const char* distances, const char* why) {
    const auto made = Hierarchy::parse(groups, distances);
    ASSERT_FALSE(made) << groups << ' ' << distances;
    EXPECT_THAT(made.error().message, HasSubstr(why));
  };
  refused("4:16", "1:10:100", "3 distances for a hierarchy of 2 levels");
  refused("4:0", "1:10", "--hierarchy");
  refused("4:x", "1:10", "--hierarchy");
  refused("4::4", "1:2:3", "--hierarchy");
  refused("", "", "0 levels");
  refused("4:4", "10:1", "none smaller than the one before");
  refused("4:4", "0:1", "--distances");
  refused("1024:1024:2", "1:2:3", "at most 1048576 nodes");
}

TEST(Hierarchy, FiguresAreThoseOfTheMessagesOneByOne) {
  const std::vector<int> groups{2, 3, 2}, distances{1, 7, 20};
  const Network network = Hierarchy::create(groups, distances).value();
  const CommMatrix matrix = *random_sparse(12, 4, 5);
  Placement placement(12);
  std::iota(placement.rbegin(), placement.rend(), 0);
  std::swap(placement[3], placement[8]);
  const Evaluation evaluation = evaluate(matrix, network, placement);
  EXPECT_DOUBLE_EQ(evaluation.hop_bytes, cost(matrix, groups, distances, placement));
  EXPECT_EQ(evaluation.hop_bytes, evaluation.hop_bytes_mesh);
  // What leaves or enters a group is on its link.
  double most = 0;
  for (const int span : {1, 2, 6}) {
    for (int group = 0; group < 12 / span; ++group) {
      double out = 0, in = 0;
      for (const Flow& flow : matrix.flows()) {
        const bool from = placement[flow.from] / span == group;
        const bool to = placement[flow.to] / span == group;
        out += from && !to ? flow.bytes : 0;
        in += to && !from ? flow.bytes : 0;
      }
      most = std::max({most, out, in});
    }
  }
  EXPECT_DOUBLE_EQ(evaluation.max_link_load, most);
  EXPECT_EQ(evaluation.max_link_bytes, evaluation.max_link_load);
  EXPECT_EQ(evaluation.link_loads.size(), 2u * (12 + 6 + 2));
}

TEST(Hierarchy, SmallCasesReachTheOptimum) {
  int cases = 0, hits = 0;
  for (int i = 0; i < 12; ++i) {
    const Network network =
        i % 2 == 0 ? hierarchy_of("2:2:2", "1:10:100") : hierarchy_of("2:3", "1:4");
    const CommMatrix matrix = *random_sparse(node_count(network) - i % 3, 2 + i % 2, 300 + i);
    for (const double share : {0.0, 1.0}) {
      Goal goal;
      goal.link_share = share;
      const auto value = [&](const Placement& placement) {
        EXPECT_TRUE(check_placement(placement, network, {}, matrix.tasks()));
        const Evaluation figures = evaluate(matrix, network, placement);
        EXPECT_LE(lower_bounds(matrix, network, {}).hop_bytes, figures.hop_bytes * (1 + 1e-12));
        EXPECT_LE(lower_bounds(matrix, network, {}).max_link_load,
                  figures.max_link_load * (1 + 1e-12));
        return goal_value(goal, figures);
      };
      const double best = value(exhaustive(matrix, network, {}, goal).value());
      const double found = value(refine(matrix, network, {}, moves(share, 60000)));
      ++cases;
      EXPECT_GE(found, best - 1e-9);
      hits += found <= best + 1e-9 ? 1 : 0;
    }
  }
  EXPECT_GE(hits, 0.95 * cases);
}

TEST(Hierarchy, ScrambledCliquesFindTheirGroupsAgain) {
  // Cliques of four fill the groups of four; the ring of cliques costs the least in order.
  const CommMatrix matrix = scrambled(*cliques(256, 4), 7);
  const Network network = hierarchy_of("4:8:8", "1:10:100");
  const Placement placement = refine(matrix, network, {}, moves(0, 400000));
  ASSERT_TRUE(check_placement(placement, network, {}, 256));
  const double ordered = evaluate(*cliques(256, 4), network, in_order(256, network, {})).hop_bytes;
  EXPECT_LE(evaluate(matrix, network, placement).hop_bytes, ordered * (1 + 1e-12));
}

TEST(Hierarchy, ManyTasksANodeAreHalvedIntoRoomsOfTheirs) {
  const CommMatrix matrix = scrambled(*stencil({40, 40}, false), 3);
  const Hierarchy hierarchy = hierarchy_of("4:2:3", "1:10:100");
  Room room{80, std::vector<char>(24, 1)};
  room.usable[5] = room.usable[23] = 0;
  ASSERT_TRUE(check_room(room, hierarchy, 1600));
  const Placement halved = place_by_halving(matrix, hierarchy, room, 1);
  ASSERT_TRUE(check_placement(halved, hierarchy, room, 1600));
  const double ordered = evaluate(matrix, hierarchy, in_order(1600, hierarchy, room)).hop_bytes;
  EXPECT_LT(evaluate(matrix, hierarchy, halved).hop_bytes, 0.25 * ordered);
}

TEST(Mapping, TheSlowestLinkIsNamedByItsBytesAndByItsLoad) {
  const Fabric fabric = parse_fabric_spec("tree:4x2,trunk-bandwidth=500MB/s").value();
  const Network network = tabled_network(fabric).value();
  const CommMatrix matrix = *CommMatrix::from_flows(8, {{0, 4, 300}, {1, 2, 1000}});
  const Evaluation evaluation = evaluate(matrix, network, in_order(8, network, {}));
  // Hosts have 2000 MB/s: 300 bytes take longer on the trunk than 1000 between two hosts.
  EXPECT_DOUBLE_EQ(evaluation.max_link_bytes, 300);
  EXPECT_DOUBLE_EQ(evaluation.max_link_load, 1200);
}

/// The bound by its definition, all ways to give tasks places tried.
double gilmore_lawler_by_trial(const CommMatrix& matrix, const Network& network, bool mesh_hops) {
  const int places = node_count(network);
  const Grid& grid = std::get<Grid>(network);
  std::vector<int> place_of(places);
  std::iota(place_of.begin(), place_of.end(), 0);
  double least = std::numeric_limits<double>::infinity();
  do {
    double sum = 0;
    for (int task = 0; task < matrix.tasks(); ++task) {
      std::vector<double> bytes, hops;
      for (const Flow& flow : matrix.flows()) {
        if (flow.from == task || flow.to == task) bytes.push_back(flow.bytes);
      }
      for (int other = 0; other < places; ++other) {
        if (other == place_of[task]) continue;
        const int distance = mesh_hops ? grid.mesh_distance(other, place_of[task])
                                       : grid.distance(other, place_of[task]);
        hops.push_back(distance);
      }
      std::sort(bytes.rbegin(), bytes.rend());
      std::sort(hops.begin(), hops.end());
      for (size_t i = 0; i < bytes.size(); ++i) sum += bytes[i] * hops[i] / 2;
    }
    least = std::min(least, sum);
  } while (std::next_permutation(place_of.begin(), place_of.end()));
  return least;
}

TEST(GilmoreLawler, IsTheLeastOfAllAssignments) {
  for (const char* name : {"mesh:7", "mesh:2x3", "torus:2x3", "torus:7"}) {
    const Network network = grid_of(name);
    for (int seed = 1; seed < 5; ++seed) {
      // Each pair in one direction, so that a partner is one message.
      std::vector<Flow> flows;
      for (const Flow& flow : random_sparse(node_count(network) - seed % 2, 2, seed)->flows()) {
        if (flow.from < flow.to) flows.push_back(flow);
      }
      const CommMatrix matrix = *CommMatrix::from_flows(node_count(network) - seed % 2, flows);
      for (const bool mesh_hops : {false, true}) {
        const double bound = gilmore_lawler(matrix, network, {}, mesh_hops).value();
        EXPECT_NEAR(bound, gilmore_lawler_by_trial(matrix, network, mesh_hops), 1e-9 * bound)
            << name;
        Goal goal;
        goal.mesh_hops = mesh_hops;
        const Evaluation best =
            evaluate(matrix, network, exhaustive(matrix, network, {}, goal).value());
        EXPECT_LE(bound, (mesh_hops ? best.hop_bytes_mesh : best.hop_bytes) * (1 + 1e-12));
        EXPECT_GE(bound * (1 + 1e-12), lower_bounds(matrix, network, {}).hop_bytes);
      }
    }
  }
}

TEST(GilmoreLawler, HoldsWhereNodesTakeSeveralTasksAndOnOtherNetworks) {
  const Fabric fabric = parse_fabric_spec("tree:4x4,trunk-bandwidth=500MB/s").value();
  const Room two{2, {}};
  for (const Network& network :
       {Network(grid_of("mesh:4x5")), Network(hierarchy_of("2:2:5", "1:10:100")),
        Network(tabled_network(fabric).value())}) {
    const CommMatrix matrix = *random_sparse(30, 4, 11);
    const double bound = gilmore_lawler(matrix, network, two, false).value();
    const Evaluation found =
        evaluate(matrix, network, refine(matrix, network, two, moves(0, 40000)));
    EXPECT_LE(bound, found.hop_bytes * (1 + 1e-12)) << network_name(network);
    EXPECT_GE(bound * (1 + 1e-12), lower_bounds(matrix, network, two).hop_bytes);
    EXPECT_GT(bound, 0);
  }
  EXPECT_FALSE(gilmore_lawler(*stencil({8, 8, 9}, false), grid_of("mesh:8x8x9"), {}, false));
}

}  // namespace
}  // namespace ibcoll::topology
