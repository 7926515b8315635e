/// Data for many on direct networks: how fast it can be at all, and how near plans come.

#include <numeric>
#include <set>

#include "engine/algorithms/registry.h"
#include "engine/planner/contention_free/disjoint_trees.h"
#include "engine/planner/contention_free/max_flow.h"
#include "engine/planner/contention_free/plan_file.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"
#include "studies/simulate/plan_run.h"
#include "tests/planner/contention_free_networks.h"
#include "topology/fabric_builder.h"

namespace ibcoll::contention_free {
namespace {

/// Links of 50 GB/s, and hosts whose port is as wide as six of them.
const std::string kWide = ",bandwidth=300GB/s,trunk-bandwidth=50GB/s,latency=500ns";

int64_t bound_of(const Fabric& fabric, Kind kind, uint64_t bytes) {
  return lower_bound_ns(request_for(fabric, kind, bytes)).value();
}

double over_bound(const Plan& plan) {
  return static_cast<double>(plan.time_ns) / static_cast<double>(plan.bound_ns);
}

/// The largest of all cuts through the switches, tried one by one.
double largest_cut_ns(const Fabric& fabric, double bytes) {
  double most = 0;
  const int switches = fabric.switches();
  for (uint32_t set = 1; set + 1 < uint32_t{1} << switches; ++set) {
    const auto in = [&](int node) {
      if (fabric.is_host(node)) node = fabric.link(fabric.host_link(node)).to;
      return (set >> (node - fabric.hosts()) & 1) != 0;
    };
    double inside = 0, bandwidth = 0;
    for (int host = 0; host < fabric.hosts(); ++host) inside += in(host) ? bytes : 0;
    for (int l = 0; l < fabric.links(); ++l) {
      if (in(fabric.link(l).from) && !in(fabric.link(l).to)) bandwidth += fabric.link(l).bandwidth;
    }
    if (inside == 0 || inside == bytes * fabric.hosts()) continue;
    most = std::max(most, inside * 1e9 / bandwidth);
  }
  return most;
}

/// Two rings of switches, joined by one narrow cable.
Fabric two_rings(int side, double ring, double bridge) {
  topology::FabricBuilder builder("two rings");
  const int hosts = 2 * side;
  for (int h = 0; h < hosts; ++h) builder.add_host(fmt::format("h{}", h));
  for (int s = 0; s < hosts; ++s) builder.add_switch(fmt::format("s{}", s));
  for (int h = 0; h < hosts; ++h) {
    EXPECT_TRUE(builder.connect(h, 1, hosts + h, 1, {4 * ring, 500}));
  }
  for (int s = 0; s < hosts; ++s) {
    const int next = s / side * side + (s + 1) % side;
    EXPECT_TRUE(builder.connect(hosts + s, 2, hosts + next, 3, {ring, 500}));
  }
  EXPECT_TRUE(builder.connect(hosts, 4, hosts + side, 4, {bridge, 500}));
  EXPECT_TRUE(builder.begin_routes());
  for (int s = 0; s < hosts; ++s) {
    for (int t = 0; t < hosts; ++t) {
      const bool here = s / side == t / side;
      int port = here || s % side != 0 ? 2 : 4;
      if (s == t) port = 1;
      builder.set_port(hosts + s, t, port);
    }
  }
  return builder.finish().value();
}

TEST(DirectNetworks, TheBoundIsTheNarrowestCut) {
  // Into a corner lead two links, into any other server more.
  const double rest = 24.0 * (1 << 20);
  EXPECT_NEAR(static_cast<double>(bound_of(network("mesh:5x5" + kWide), Kind::kAllgather, 1 << 20)),
              rest / 100, 2);
  EXPECT_NEAR(
      static_cast<double>(bound_of(network("mesh:5x5" + kWide), Kind::kReduceScatter, 1 << 20)),
      rest / 100, 2);
  EXPECT_NEAR(static_cast<double>(bound_of(network("mesh:5x5" + kWide), Kind::kBcast, 100 << 20)),
              100.0 * (1 << 20) / 100, 2);
  const int64_t torus = bound_of(network("torus:3x3x3" + kWide), Kind::kBcast, 100 << 20);
  EXPECT_NEAR(static_cast<double>(torus), 100.0 * (1 << 20) / 300,
              3'000);  // a latency comes on top
  EXPECT_GE(torus, (100 << 20) / 300);
}

TEST(DirectNetworks, TheBoundIsTheLargestOfAllCuts) {
  for (const double bridge : {1e8, 1e9, 5e9}) {
    const Fabric fabric = two_rings(4, 1e9, bridge);
    const auto bound = static_cast<double>(bound_of(fabric, Kind::kAllgather, 1 << 20));
    const double cut = largest_cut_ns(fabric, 1 << 20);
    EXPECT_GE(bound, cut - 2) << bridge;
    EXPECT_LE(bound, cut + 2'000) << bridge;  // a latency may come on top
  }
  const Fabric mesh = network("mesh:3x4" + kWide);
  EXPECT_NEAR(static_cast<double>(bound_of(mesh, Kind::kAllgather, 1 << 20)),
              largest_cut_ns(mesh, 1 << 20), 2'000);
}

/// With 1 GiB in all: times of TACOS 1.3 on the same networks, us.
struct Published {
  const char* spec;
  int links;  ///< of a server
  double gib_per_s;
  double tacos_us;
};

TEST(DirectNetworks, PlansAreAsShortAsTacos) {
  for (const Published& of :
       {Published{"torus:3x3x3", 6, 50, 3706}, Published{"mesh:5x5", 4, 50, 9606},
        Published{"mesh:10x10", 4, 100, 5049}}) {
    const double rate = of.gib_per_s * (1 << 30);
    const Fabric fabric =
        network(fmt::format("{},bandwidth={:.0f}B/s,trunk-bandwidth={:.0f}B/s,latency=500ns",
                            of.spec, rate * of.links, rate));
    const uint64_t bytes = (uint64_t{1} << 30) / static_cast<uint64_t>(fabric.hosts());
    for (const Kind kind : {Kind::kAllgather, Kind::kReduceScatter}) {
      const PlanInputs inputs = request_for(fabric, kind, bytes);
      const Plan plan = planned(inputs);
      expect_right(inputs, plan, label(of.spec, inputs));
      EXPECT_LE(static_cast<double>(plan.time_ns), 1.05e3 * of.tacos_us) << label(of.spec, inputs);
      if (fabric.hosts() > 50) continue;  // takes seconds
      EXPECT_LE(sim::simulate_plan(fabric, {}, plan)->time_us, 1.05 * of.tacos_us)
          << label(of.spec, inputs);
    }
  }
}

TEST(DirectNetworks, AllKindsAreNearTheBound) {
  for (const char* spec : {"torus:4x4x4", "torus:2x2x2x2", "torus:5x7", "mesh:4x5"}) {
    const Fabric fabric = network(spec + kWide);
    for (const Kind kind : {Kind::kAllgather, Kind::kReduceScatter, Kind::kBcast}) {
      PlanInputs inputs = request_for(fabric, kind, kind == Kind::kBcast ? 256 << 20 : 8 << 20);
      inputs.root = fabric.hosts() / 2;
      inputs.most_parts = 8;
      const Plan plan = planned(inputs);
      expect_right(inputs, plan, label(spec, inputs));
      // Whole messages don't divide evenly among the links of a server.
      const double most = kind == Kind::kReduceScatter ? 1.08 : 1.05;
      EXPECT_LE(over_bound(plan), most) << label(spec, inputs);
    }
  }
}

TEST(DirectNetworks, AnAllreduceIsAReduceScatterAndAnAllgather) {
  for (const char* spec : {"torus:3x3x3", "mesh:4x4"}) {
    const Fabric fabric = network(spec + kWide);
    const auto hosts = static_cast<uint64_t>(fabric.hosts());
    const PlanInputs inputs = request_for(fabric, Kind::kAllreduce, hosts << 20);
    const Plan plan = planned(inputs);
    expect_right(inputs, plan, spec);
    const Plan halves[] = {planned(request_for(fabric, Kind::kReduceScatter, 1 << 20)),
                           planned(request_for(fabric, Kind::kAllgather, 1 << 20))};
    EXPECT_LE(static_cast<double>(plan.time_ns),
              1.05 * static_cast<double>(halves[0].time_ns + halves[1].time_ns));
  }
}

TEST(DirectNetworks, AreRightWhateverTheirFigures) {
  const std::string specs[] = {
      "torus:3x3" + kLan,
      "torus:3x3,trunk-bandwidth=3Gbit/s" + kLan,
      "mesh:2x5,trunk-bandwidth=300Mbit/s" + kLan,
      "mesh:4x3,bandwidth=2500MB/s,trunk-bandwidth=1000MB/s",
      "mesh:2",
  };
  const auto check = [](const Fabric& fabric, const std::string& what) {
    for (const Kind kind : kAllKinds) {
      for (const uint64_t bytes : {1, 700, 100'000, 5'000'000}) {
        for (const bool ahead : {true, false}) {
          PlanInputs inputs = request_for(fabric, kind, bytes);
          inputs.root = fabric.hosts() - 1;
          inputs.tokens_ahead = ahead;
          inputs.most_parts = kind == Kind::kAllgather ? 3 : 0;
          expect_right(inputs, planned(inputs), label(what, inputs));
        }
      }
    }
  };
  for (const std::string& spec : specs) check(network(spec), spec);
  check(two_rings(4, 1e9, 3e8), "two rings");
}

TEST(DirectNetworks, BlocksOfDifferentSizesAndServersInAnotherOrder) {
  const Fabric fabric = network("mesh:3x4" + kWide);
  PlanInputs inputs = request_for(fabric, Kind::kAllgather, 0);
  inputs.hosts.resize(12);
  std::iota(inputs.hosts.rbegin(), inputs.hosts.rend(), 0);
  for (int s = 0; s < 12; ++s) inputs.message_bytes.push_back(s == 3 ? 0 : 100'000 * (1 + s % 4));
  for (const Kind kind : {Kind::kAllgather, Kind::kReduceScatter}) {
    inputs.kind = kind;
    const Plan plan = planned(inputs);
    expect_right(inputs, plan, to_string(kind));
    EXPECT_LE(over_bound(plan), 1.3);
  }
}

TEST(DirectNetworks, TheCheckerMissesNoPart) {
  const Fabric fabric = network("torus:3x3" + kWide);
  const PlanInputs inputs = request_for(fabric, Kind::kBcast, 64 << 20);
  const Plan plan = planned(inputs);
  ASSERT_EQ(plan.parts, 4);
  expect_right(inputs, plan, "as planned");
  Plan lacks = plan;
  const int last = lacks.transfers.back().to;
  lacks.transfers.pop_back();
  EXPECT_THAT(check_plan(inputs, lacks).error().message,
              ::testing::HasSubstr(fmt::format("never reaches server {}", last)));
  Plan other = plan;
  other.transfers.back().part = (other.transfers.back().part + 1) % 4;
  EXPECT_FALSE(check_plan(inputs, other));
  Plan fewer = plan;
  fewer.parts = 3;
  EXPECT_FALSE(check_plan(inputs, fewer));
  const auto again = plan_from_json(plan_to_json(plan));
  ASSERT_TRUE(again.has_value());
  expect_right(inputs, *again, "from a file");
  EXPECT_EQ(again->parts, 4);
}

TEST(DirectNetworks, PartsOfABroadcastAreCarriedOut) {
  PlanStore plans(network("torus:3x3" + kWide));
  const Algorithm* algorithm = find_algorithm(Collective::kBcast, "contention_free").value();
  for (const char* layout : {"9x1", "9x2", "3,1,2,1,1,4,1,1,2"}) {
    const Shape shape = parse_layout(layout).value();
    std::vector<int> hosts(shape.servers());
    std::iota(hosts.begin(), hosts.end(), 0);
    for (const int64_t bytes : {100'000, 5'000'000}) {
      AlgorithmOptions options;
      options.root = shape.ranks() - 1;
      options.plan = plans.find(Collective::kBcast, shape, hosts, options.root, bytes).value();
      ASSERT_EQ(options.plan->parts, 4u);
      const auto programs = build_all(*algorithm, shape, options);
      EXPECT_EQ(programs[0]->cut, 4 * options.plan->pieces);
      const auto report = verify(shape, programs);
      EXPECT_TRUE(report.has_value()) << layout << ": " << (report ? "" : report.error().message);
    }
  }
}

TEST(MaxFlow, FindsTheCut) {
  MaxFlow flow(4);
  const double capacities[] = {3, 2, 1, 2, 3};
  const std::pair<int, int> arcs[] = {{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}};
  for (size_t i = 0; i < 5; ++i) {
    flow.set_capacity(flow.add_arc(arcs[i].first, arcs[i].second), capacities[i]);
  }
  EXPECT_DOUBLE_EQ(flow.run(0, 3), 5);
  flow.set_capacity(4, 0.5);
  EXPECT_DOUBLE_EQ(flow.run(0, 3), 2.5);
  EXPECT_TRUE(flow.on_source_side(1));
  EXPECT_TRUE(flow.on_source_side(2));
  EXPECT_FALSE(flow.on_source_side(3));
}

TEST(DisjointTrees, ReachAllAndShareNothing) {
  // Of a hypercube of four dimensions, two trees over some of its arcs.
  std::vector<TreeArc> arcs;
  for (int node = 0; node < 16; ++node) {
    for (int bit = 1; bit < 16; bit *= 2) arcs.push_back({node, node ^ bit, bit == 1 ? 2 : 1});
  }
  const auto trees = disjoint_trees(16, arcs, 5, 64);
  ASSERT_EQ(trees.size(), 5u);
  std::vector<int> used(arcs.size(), 0);
  for (const DisjointTree& tree : trees) {
    std::set<int> reached = {5};
    for (const uint32_t a : tree) {
      EXPECT_TRUE(reached.contains(arcs[a].from));
      EXPECT_TRUE(reached.insert(arcs[a].to).second);
      ++used[a];
    }
    EXPECT_EQ(reached.size(), 16u);
  }
  for (size_t a = 0; a < arcs.size(); ++a) EXPECT_LE(used[a], arcs[a].trees);
  EXPECT_EQ(disjoint_trees(16, arcs, 5, 3).size(), 3u);
}

}  // namespace
}  // namespace ibcoll::contention_free
