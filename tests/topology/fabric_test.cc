// The fabric graph, its generators and their specifications.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "studies/mapping/fabric_network.h"
#include "studies/mapping/grid.h"
#include "topology/fabric_builder.h"
#include "topology/spec.h"

namespace ibcoll::topology {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::string& spec) {
  const auto fabric = open_fabric(spec);
  return fabric ? "no error" : fabric.error().message;
}

/// Most routes over one directed link when every host h sends to order(h).
template <class Order>
int most_on_a_link(const Fabric& fabric, Order&& order) {
  std::vector<int> load(fabric.links(), 0);
  for (int from = 0; from < fabric.hosts(); ++from) {
    fabric.visit_route(from, order(from), [&](int link) { ++load[link]; });
  }
  return *std::max_element(load.begin(), load.end());
}

class EveryKind : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryKind, RoutesLeadFromHostToHost) {
  const Fabric fabric = open_fabric(GetParam()).value();
  for (int link = 0; link < fabric.links(); ++link) {
    const Link& one = fabric.link(link);
    const Link& other = fabric.link(Fabric::reverse(link));
    EXPECT_EQ(one.from, other.to);
    EXPECT_EQ(one.from_port, other.to_port);
    EXPECT_EQ(fabric.link_at(one.from, one.from_port), link);
  }
  for (int from = 0; from < fabric.hosts(); ++from) {
    for (int to = 0; to < fabric.hosts(); ++to) {
      int node = from;
      std::set<int> seen{from};
      for (const int link : fabric.route(from, to)) {
        ASSERT_EQ(fabric.link(link).from, node);
        node = fabric.link(link).to;
        ASSERT_TRUE(seen.insert(node).second);
      }
      ASSERT_EQ(node, to);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, EveryKind,
    ::testing::Values("single-switch:1", "single-switch:24", "fat-tree:4,3", "fat-tree:4,2,taper=4",
                      "fat-tree:5,1", "xgft:3x4x5/1x2x3/1x2x1", "xgft:4x4x4/1x4x4,hosts=37",
                      "tree:14x5,hosts=64", "tree:3x2x4", "torus:4x4x4", "torus:2x1x5", "mesh:5x7",
                      "mesh:1", "torus:3x3,hosts-per-switch=4", "dragonfly:2,4,2",
                      "dragonfly:1,3,2,groups=3", "dragonfly:3,1,1", "wan:5", "wan:8,8",
                      "wan:3,4,5", "twelve-clusters:12", "random-tree:20,9,seed=3"));

TEST(Fabric, SingleSwitch) {
  const Fabric fabric =
      open_fabric("single-switch:24,bandwidth=2000MB/s,latency=200ns,switch-latency=100ns").value();
  EXPECT_EQ(fabric.hosts(), 24);
  EXPECT_EQ(fabric.switches(), 1);
  EXPECT_EQ(fabric.links(), 48);
  EXPECT_EQ(fabric.hops(3, 5), 2);
  EXPECT_EQ(fabric.route_latency_ns(3, 5), 500);
  EXPECT_EQ(fabric.route_latency_ns(3, 3), 0);
  EXPECT_EQ(fabric.route_bandwidth(3, 5), 2e9);
  EXPECT_THAT(fabric.route(3, 5),
              ElementsAre(fabric.host_link(3), Fabric::reverse(fabric.host_link(5))));
  EXPECT_EQ(fabric.find("h23"), 23);
  EXPECT_EQ(fabric.find("s0"), 24);
  EXPECT_EQ(fabric.find("s1"), std::nullopt);
}

TEST(Fabric, ShiftsAreFreeOfConflictsOnFatTrees) {
  for (const char* spec : {"fat-tree:4,3", "xgft:4x4x8/1x4x4", "xgft:6x4/1x3/1x2"}) {
    const Fabric fabric = open_fabric(spec).value();
    for (int shift = 1; shift < fabric.hosts(); ++shift) {
      EXPECT_EQ(most_on_a_link(fabric, [&](int h) { return (h + shift) % fabric.hosts(); }), 1)
          << spec << " shift " << shift;
    }
  }
}

TEST(Fabric, TaperHalvesWhatGoesUp) {
  const Fabric fabric = open_fabric("fat-tree:4,2,taper=2").value();
  EXPECT_EQ(fabric.hosts(), 16);
  EXPECT_EQ(fabric.switches(), 4 + 2);
  EXPECT_EQ(most_on_a_link(fabric, [&](int h) { return (h + 4) % 16; }), 2);
}

TEST(Fabric, FatTreeOfThousandsOfHosts) {
  const Fabric fabric = open_fabric("fat-tree:12,3").value();
  EXPECT_EQ(fabric.hosts(), 1728);
  EXPECT_EQ(fabric.switches(), 3 * 144);
  EXPECT_EQ(fabric.links(), 2 * 3 * 1728);
  EXPECT_EQ(fabric.hops(0, 1), 2);
  EXPECT_EQ(fabric.hops(0, 12), 4);
  EXPECT_EQ(fabric.hops(0, 1727), 6);
}

TEST(Fabric, TrunksOfOtherBandwidths) {
  const Fabric fabric =
      open_fabric("tree:2x2x2,bandwidth=1Gbit/s,trunk-bandwidth=10Gbit/s:40Gbit/s").value();
  std::vector<double> rates;
  for (const int link : fabric.route(0, 7)) rates.push_back(fabric.link(link).bandwidth * 8 / 1e9);
  EXPECT_THAT(rates, ElementsAre(1, 10, 40, 40, 10, 1));
  EXPECT_EQ(fabric.route_bandwidth(0, 7), 125e6);
}

TEST(Fabric, GridsRouteAsTheMapperDoes) {
  for (const char* spec : {"torus:4x3x2", "torus:6x5", "mesh:4x3x2", "torus:7"}) {
    const Fabric fabric = open_fabric(spec).value();
    const Grid grid = Grid::parse(spec).value();
    ASSERT_EQ(fabric.hosts(), grid.nodes());
    EXPECT_EQ(fabric.links(), 2 * grid.nodes() + grid.usable_links()) << spec;
    for (int a = 0; a < grid.nodes(); ++a) {
      for (int b = 0; b < grid.nodes(); ++b) {
        std::vector<int> passed, expected;
        fabric.visit_route(a, b, [&](int link) { passed.push_back(fabric.link(link).to); });
        int node = a;
        if (a != b) expected.push_back(fabric.hosts() + a);
        grid.route(a, b, [&](int link) {
          const int dimension = link / 2 % grid.dimensions(), side = grid.side(dimension);
          std::vector<int> at;
          for (int d = 0; d < grid.dimensions(); ++d) at.push_back(grid.coordinate(node, d));
          at[dimension] = (at[dimension] + (link % 2 == 0 ? 1 : side - 1)) % side;
          node = grid.node_at(at);
          expected.push_back(fabric.hosts() + node);
        });
        if (a != b) expected.push_back(b);
        ASSERT_EQ(passed, expected) << spec << " " << a << " " << b;
      }
    }
  }
}

TEST(Fabric, ClustersOverAWan) {
  const Fabric two =
      open_fabric(
          "wan:2,3,bandwidth=1Gbit/s,trunk-bandwidth=10Gbit/s,latency=10us,long-latency=5ms")
          .value();
  EXPECT_EQ(two.switches(), 2);
  EXPECT_EQ(two.route_latency_ns(0, 4), 5'020'000);
  const Fabric twelve = open_fabric("twelve-clusters:12").value();
  EXPECT_EQ(twelve.hosts(), 157);
  EXPECT_EQ(twelve.route_latency_ns(0, 156), 5'020'000);
  EXPECT_EQ(twelve.node(0).name, "chiba-0");
  EXPECT_EQ(open_fabric("twelve-clusters:3").value().hosts(), 72);
}

TEST(Fabric, CanBeMappedOnto) {
  const Fabric fabric = open_fabric("fat-tree:2,3").value();
  const RoutedNetwork network = tabled_network(fabric).value();
  ASSERT_EQ(network.nodes(), fabric.hosts());
  EXPECT_EQ(network.links(), fabric.links());
  for (int a = 0; a < fabric.hosts(); ++a) {
    for (int b = 0; b < fabric.hosts(); ++b) {
      std::vector<int> links;
      network.route(a, b, [&](int link) { links.push_back(link); });
      EXPECT_EQ(links, fabric.route(a, b));
    }
  }
}

TEST(Fabric, HostsCanBeRenumbered) {
  const Fabric fabric = open_fabric("fat-tree:2,3").value();
  const std::vector<int> order{7, 0, 3};
  const Fabric three = fabric.with_hosts(order).value();
  ASSERT_EQ(three.hosts(), 3);
  EXPECT_EQ(three.switches(), fabric.switches());
  EXPECT_EQ(three.links(), fabric.links() - 2 * 5);
  const auto names = [](const Fabric& of, int from, int to) {
    std::vector<std::string> list;
    of.visit_route(from, to, [&](int link) { list.push_back(of.node(of.link(link).to).name); });
    return list;
  };
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) EXPECT_EQ(names(three, a, b), names(fabric, order[a], order[b]));
  }
  EXPECT_FALSE(fabric.with_hosts({0, 0}));
  EXPECT_FALSE(fabric.with_hosts({8}));
  EXPECT_FALSE(fabric.with_hosts({}));
}

TEST(FabricSpec, ErrorsNameWhatIsWrong) {
  EXPECT_THAT(error_of("fat-tree:8"), HasSubstr("expected something like fat-tree:8,3"));
  EXPECT_THAT(error_of("fat-tree:8,3,4"), HasSubstr("expected something like"));
  EXPECT_THAT(error_of("fat-tree:8,0"), HasSubstr("must be 1 to"));
  EXPECT_THAT(error_of("fat-tree:8,2,taper=3"), HasSubstr("multiple of the taper"));
  EXPECT_THAT(error_of("fat-tree:64,5"), HasSubstr("a fat tree of more than"));
  EXPECT_THAT(error_of("fat-tree:64,3"), HasSubstr("routing entries"));
  EXPECT_THAT(error_of("torus:64x64x64"), HasSubstr("routing entries"));
  EXPECT_THAT(error_of("torus:4xx4"), HasSubstr("side of network"));
  EXPECT_THAT(error_of("single-switch:24,speed=3"), HasSubstr("has no 'speed'"));
  EXPECT_THAT(error_of("single-switch:24,latency=1,latency=2"), HasSubstr("stands twice"));
  EXPECT_THAT(error_of("single-switch:24,bandwidth=0MB/s"), HasSubstr("bandwidth"));
  EXPECT_THAT(error_of("single-switch:24,bandwidth=fast"),
              AllOf(HasSubstr("bandwidth of network"), HasSubstr("fast")));
  EXPECT_THAT(error_of("single-switch:24,latency=11s"), HasSubstr("at most 10s"));
  EXPECT_THAT(error_of("single-switch:100000"), HasSubstr("1 to 65535"));
  EXPECT_THAT(error_of("xgft:4x4/2x4"), HasSubstr("one parent"));
  EXPECT_THAT(error_of("tree:4x4,hosts=17"), HasSubstr("17 hosts"));
}

/// Two hosts on two switches with two cables between them.
struct Pair {
  FabricBuilder builder{"pair"};
  int a = builder.add_host("a"), s = builder.add_switch("s"), b = builder.add_host("b"),
      t = builder.add_switch("t");
  Cable cable{1e9, 100};

  Pair() {
    EXPECT_TRUE(builder.connect(a, 1, s, 1, cable));
    EXPECT_TRUE(builder.connect(b, 1, t, 1, cable));
    EXPECT_TRUE(builder.connect(s, 2, t, 2, cable));
    EXPECT_TRUE(builder.connect(s, 3, t, 3, cable));
    EXPECT_TRUE(builder.begin_routes());
    builder.set_port(s, a, 1);
    builder.set_port(s, b, 2);
    builder.set_port(t, a, 2);
    builder.set_port(t, b, 1);
  }
  std::string error() {
    const auto fabric = builder.finish();
    return fabric ? "no error" : fabric.error().message;
  }
};

TEST(FabricBuilder, NamesRoutesThatFail) {
  EXPECT_EQ(Pair().error(), "no error");
  Pair none;
  none.builder.set_port(none.t, none.a, 0);
  EXPECT_THAT(none.error(), HasSubstr("host 'b' can't reach host 'a': switch 't' has no route"));
  Pair loop;
  loop.builder.set_port(loop.t, loop.b, 3);
  EXPECT_THAT(loop.error(), HasSubstr("from host 'a' to host 'b' runs in a loop"));
  Pair wrong;
  wrong.builder.set_port(wrong.s, wrong.b, 1);
  EXPECT_THAT(wrong.error(), HasSubstr("loop"));
  Pair dead;
  dead.builder.set_port(dead.s, dead.b, 9);
  EXPECT_THAT(dead.error(), HasSubstr("port 9, which has no cable"));
}

TEST(FabricBuilder, RefusesCablesThatCannotBe) {
  FabricBuilder builder("x");
  const int a = builder.add_host("a"), b = builder.add_host("b"), s = builder.add_switch("s");
  const Cable cable{1e9, 100};
  builder.at(s, "f:7");
  EXPECT_FALSE(builder.connect(a, 1, b, 1, cable));
  EXPECT_FALSE(builder.connect(s, 1, s, 2, cable));
  EXPECT_FALSE(builder.connect(a, 1, s, 0, cable));
  EXPECT_FALSE(builder.connect(a, 1, s, 1, Cable{0, 100}));
  EXPECT_FALSE(builder.connect(a, 1, s, 1, Cable{1e9, -1}));
  ASSERT_TRUE(builder.connect(a, 1, s, 1, cable));
  EXPECT_THAT(builder.connect(b, 1, s, 1, cable).error().message,
              HasSubstr("port 1 of switch 's' (f:7) has two cables"));
  EXPECT_THAT(builder.connect(a, 2, s, 2, cable).error().message, HasSubstr("a host has one"));
  EXPECT_THAT(builder.begin_routes().error().message, HasSubstr("host 'b' has no cable"));
}

TEST(FabricBuilder, ShortestRoutesShareParallelCables) {
  FabricBuilder builder("bundle");
  const Cable cable{1e9, 100};
  const int left = builder.add_switch("l"), right = builder.add_switch("r");
  for (int h = 0; h < 8; ++h) {
    const int host = builder.add_host(fmt::format("h{}", h));
    ASSERT_TRUE(builder.connect(host, h < 4 ? left : right, cable));
  }
  for (int c = 0; c < 4; ++c) ASSERT_TRUE(builder.connect(left, right, cable));
  ASSERT_TRUE(builder.begin_routes());
  ASSERT_TRUE(builder.route_shortest());
  const Fabric fabric = builder.finish().value();
  EXPECT_EQ(most_on_a_link(fabric, [](int h) { return (h + 4) % 8; }), 1);
  EXPECT_EQ(fabric.node(0).name, "h0") << "hosts come first";
}

}  // namespace
}  // namespace ibcoll::topology
