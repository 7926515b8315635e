/// Data for many on direct networks: how fast it can be at all, and how near plans come.

#include <cfenv>
#include <numeric>
#include <set>

#include "engine/algorithms/registry.h"
#include "engine/planner/contention_free/direct.h"
#include "engine/planner/contention_free/disjoint_trees.h"
#include "engine/planner/contention_free/max_flow.h"
#include "engine/planner/contention_free/plan_file.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/planner/contention_free/program_plan.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"
#include "studies/simulate/plan_run.h"
#include "tests/places.h"
#include "tests/planner/contention_free_networks.h"
#include "topology/fabric_builder.h"
#include "topology/spec.h"

namespace ibcoll::contention_free {
namespace {

/// Links of 50 GB/s, and hosts whose port is as wide as six of them.
const std::string kWide = ",bandwidth=300GB/s,trunk-bandwidth=50GB/s,latency=500ns";

int64_t bound_of(const Fabric& fabric, Collective collective, uint64_t bytes) {
  return lower_bound_ns(request_for(fabric, collective, bytes)).value();
}

/// The largest of all cuts through the switches, tried one by one.
double largest_cut_ns(const Fabric& fabric, double bytes) {
  double most = 0;
  const int switches = fabric.switches();
  for (uint32_t set = 1; set + 1 < uint32_t{1} << switches; ++set) {
    const auto in = [&](int node) {
      if (fabric.is_host(node)) node = fabric.switch_of(node);
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

/// Two rings of switches, joined by one narrow cable, all routes the shortest.
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
      const int steps = ((here ? t % side : 0) - s % side + side) % side;  // round the ring
      int port = 2 * steps <= side ? 2 : 3;
      if (steps == 0) port = here ? 1 : 4;
      builder.set_port(hosts + s, t, port);
    }
  }
  return builder.finish().value();
}

/// Three servers, each joined to the others; the cable between the last two has other figures.
Fabric triangle(const topology::Cable& host, const topology::Cable& cable,
                const topology::Cable& last) {
  topology::FabricBuilder builder("triangle");
  for (int h = 0; h < 3; ++h) builder.add_host(fmt::format("h{}", h));
  for (int s = 0; s < 3; ++s) builder.add_switch(fmt::format("s{}", s));
  for (int h = 0; h < 3; ++h) EXPECT_TRUE(builder.connect(h, 1, 3 + h, 1, host));
  EXPECT_TRUE(builder.connect(3, 2, 4, 2, cable));
  EXPECT_TRUE(builder.connect(3, 3, 5, 3, cable));
  EXPECT_TRUE(builder.connect(4, 3, 5, 2, last));
  EXPECT_TRUE(builder.begin_routes());
  EXPECT_TRUE(builder.route_shortest());
  return builder.finish().value();
}

TEST(DirectNetworks, NoPlanIsBelowTheBound) {
  // Around the last cable it is faster: by bandwidth, or by latency.
  const Fabric narrow = triangle({10e9, 500}, {10e9, 500}, {1e8, 500});
  const Fabric far = triangle({10e9, 500}, {10e9, 500}, {10e9, 100'000'000});
  for (const Fabric* fabric : {&narrow, &far}) {
    for (const Collective collective : kPlanned) {
      for (const uint64_t bytes : {1'000, 10'000'000}) {
        PlanInputs inputs = request_for(*fabric, collective, bytes);
        for (inputs.root = 0; inputs.root < 3; ++inputs.root) {
          for (const Planner planner :
               {Planner::kThesis, Planner::kFixed, Planner::kList, Planner::kBest}) {
            inputs.planner = planner;
            expect_right(inputs, planned(inputs), label("triangle", inputs));
          }
        }
      }
    }
  }
}

TEST(DirectNetworks, TheBoundKnowsWaysThroughOthers) {
  const uint64_t bytes = 10'000'000;
  // By the last cable alone it would take 100 ms. Twice two cables and a port; what is passed on
  // need not be there before it is.
  const int64_t twice = 2 * (bytes / 10 + 4 * 500);
  const Fabric narrow = triangle({10e9, 500}, {10e9, 500}, {1e8, 500});
  const Fabric far = triangle({10e9, 500}, {10e9, 500}, {10e9, 100'000'000});
  for (const Fabric* fabric : {&narrow, &far}) {
    for (const Collective collective :
         {Collective::kAllgather, Collective::kBcast, Collective::kReduce,
          Collective::kReduceScatter, Collective::kAllreduce}) {
      PlanInputs inputs = request_for(*fabric, collective, bytes);
      inputs.root = 1;
      const int64_t bound = lower_bound_ns(inputs).value();
      EXPECT_GE(bound, static_cast<int64_t>(bytes) / 10) << to_string(collective);
      EXPECT_LE(bound, twice) << to_string(collective);
    }
    PlanInputs straight = request_for(*fabric, Collective::kGather, bytes);
    straight.root = 1;
    EXPECT_GE(lower_bound_ns(straight).value(), 100'000'000);
    EXPECT_LE(lower_bound_ns(straight, true).value(), 2 * twice);
  }
}

TEST(DirectNetworks, TheBoundIsTheNarrowestCut) {
  // Into a corner lead two links, into any other server more.
  const double rest = 24.0 * (1 << 20);
  EXPECT_NEAR(
      static_cast<double>(bound_of(network("mesh:5x5" + kWide), Collective::kAllgather, 1 << 20)),
      rest / 100, 2);
  EXPECT_NEAR(static_cast<double>(
                  bound_of(network("mesh:5x5" + kWide), Collective::kReduceScatter, 1 << 20)),
              rest / 100, 2);
  EXPECT_NEAR(
      static_cast<double>(bound_of(network("mesh:5x5" + kWide), Collective::kBcast, 100 << 20)),
      100.0 * (1 << 20) / 100, 2);
  const int64_t torus = bound_of(network("torus:3x3x3" + kWide), Collective::kBcast, 100 << 20);
  EXPECT_NEAR(static_cast<double>(torus), 100.0 * (1 << 20) / 300,
              3'000);  // a latency comes on top
  EXPECT_GE(torus, (100 << 20) / 300);
}

TEST(DirectNetworks, TheBoundIsTheLargestOfAllCuts) {
  for (const double bridge : {1e8, 1e9, 5e9}) {
    const Fabric fabric = two_rings(4, 1e9, bridge);
    const auto bound = static_cast<double>(bound_of(fabric, Collective::kAllgather, 1 << 20));
    const double cut = largest_cut_ns(fabric, 1 << 20);
    EXPECT_GE(bound, cut - 2) << bridge;
    EXPECT_LE(bound, cut + 2'000) << bridge;  // a latency may come on top
  }
  const Fabric mesh = network("mesh:3x4" + kWide);
  EXPECT_NEAR(static_cast<double>(bound_of(mesh, Collective::kAllgather, 1 << 20)),
              largest_cut_ns(mesh, 1 << 20), 2'000);
}

TEST(DirectNetworks, NothingToDeliverTakesNoTime) {
  const Fabric alone = network("single-switch:1" + kWide), mesh = network("mesh:2" + kWide);
  std::feclearexcept(FE_INVALID);
  for (const Collective collective : kPlanned) {
    EXPECT_EQ(bound_of(alone, collective, 1 << 20), 0) << to_string(collective);
    EXPECT_EQ(bound_of(mesh, collective, 0), 0) << to_string(collective);
  }
  EXPECT_EQ(std::fetestexcept(FE_INVALID), 0);  // 0 / 0
}

/// With 1 GiB in all: times of an allgather of TACOS 1.3 on the same networks, us.
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
    for (const Collective collective : {Collective::kAllgather, Collective::kReduceScatter}) {
      const PlanInputs inputs = request_for(fabric, collective, bytes);
      const Plan plan = planned(inputs);
      expect_right(inputs, plan, label(of.spec, inputs));
      // What is combined goes on only when all of it is there.
      const double most = collective == Collective::kAllgather ? 1 : 1.001;
      EXPECT_LE(static_cast<double>(plan.time_ns), most * 1e3 * of.tacos_us)
          << label(of.spec, inputs);
      if (fabric.hosts() > 50) continue;  // takes seconds
      EXPECT_LE(sim::simulate_plan(fabric, {}, plan)->time_us, 1.05 * of.tacos_us)
          << label(of.spec, inputs);
    }
  }
}

/// GPUs that are linked to each other: links of two speeds and of one direction only, and a switch
/// without a server. Times of TE-CCL (docs/results/synthesis.md), which may copy in that switch.
TEST(DirectNetworks, ServersOfLinkedGpusAreNearTheSolversTimes) {
  struct Case {
    const char* network;
    Collective collective;
    uint64_t bytes;
    double solver_us, at_most;
  };
  const Case cases[] = {{"dgx2x2", Collective::kAllgather, 31'250'000, 7750, 1.01},
                        {"dgx2x2", Collective::kAlltoall, 31'250'000, 80'250, 1.01},
                        {"ndv2x2", Collective::kAllgather, 62'500'000, 43'750, 1},
                        {"ndv2x4", Collective::kAllgather, 31'250'000, 65'000, 1}};
  for (const Case& c : cases) {
    const std::string path =
        testing_tools::source_dir() + "/docs/results/data/" + c.network + ".json";
    const Fabric fabric = topology::open_fabric(path).value();
    const PlanInputs inputs = request_for(fabric, c.collective, c.bytes);
    const Plan plan = planned(inputs);
    expect_right(inputs, plan, c.network);
    EXPECT_LE(static_cast<double>(plan.time_ns) * 1e-3, c.at_most * c.solver_us) << c.network;
    const auto times = sim::simulate_plan(fabric, {}, plan);
    ASSERT_TRUE(times) << times.error().message;
    EXPECT_LE(times->time_us * 1e3, 1.02 * static_cast<double>(plan.time_ns)) << c.network;
  }
  // Those that go the way back, too, and nothing at all.
  for (const Collective collective : kPlanned) {
    const Fabric fabric =
        topology::open_fabric(testing_tools::source_dir() + "/docs/results/data/ndv2x2.json")
            .value();
    for (const uint64_t bytes : {0, 5000}) {
      const PlanInputs inputs = request_for(fabric, collective, bytes);
      expect_right(inputs, planned(inputs), to_string(collective));
    }
  }
}

TEST(DirectNetworks, AllKindsAreNearTheBound) {
  for (const char* spec : {"torus:4x4x4", "torus:2x2x2x2", "torus:5x7", "mesh:4x5"}) {
    const Fabric fabric = network(spec + kWide);
    for (const Collective collective :
         {Collective::kAllgather, Collective::kReduceScatter, Collective::kBcast}) {
      PlanInputs inputs =
          request_for(fabric, collective, collective == Collective::kBcast ? 256 << 20 : 8 << 20);
      inputs.root = fabric.hosts() / 2;
      inputs.most_parts = 8;
      const Plan plan = planned(inputs);
      expect_right(inputs, plan, label(spec, inputs));
      // Whole messages don't divide evenly among the links of a server.
      const double most = collective == Collective::kReduceScatter ? 1.08 : 1.05;
      EXPECT_LE(over_bound(plan), most) << label(spec, inputs);
    }
  }
}

TEST(DirectNetworks, BroadcastsWithinNarrowPorts) {
  struct Ports {
    const char* spec;
    int links;  ///< that a port is as wide as
    double most_over_bound;
  };
  for (const Ports& of :
       {Ports{"torus:3x3x3", 2, 1.05}, Ports{"torus:3x3x3", 3, 1.55}, Ports{"torus:4x4", 3, 1.55},
        Ports{"torus:4x4x4", 3, 1.1}, Ports{"mesh:5x5", 3, 1.55}, Ports{"torus:4x4", 4, 1.05},
        Ports{"dragonfly:1,64,1,groups=1", 20, 1.6}}) {
    const Fabric fabric = network(fmt::format(
        "{},bandwidth={}GB/s,trunk-bandwidth=50GB/s,latency=500ns", of.spec, 50 * of.links));
    const PlanInputs inputs = request_for(fabric, Collective::kBcast, 1 << 30);
    const Plan plan = planned(inputs);
    expect_right(inputs, plan, label(of.spec, inputs));
    EXPECT_LE(over_bound(plan), of.most_over_bound) << of.spec << ", ports of " << of.links;
  }
}

TEST(DirectNetworks, AnAllreduceIsAReduceScatterAndAnAllgather) {
  for (const char* spec : {"torus:3x3x3", "mesh:4x4"}) {
    const Fabric fabric = network(spec + kWide);
    const auto hosts = static_cast<uint64_t>(fabric.hosts());
    const PlanInputs inputs = request_for(fabric, Collective::kAllreduce, hosts << 20);
    const Plan plan = planned(inputs);
    expect_right(inputs, plan, spec);
    const Plan halves[] = {planned(request_for(fabric, Collective::kReduceScatter, 1 << 20)),
                           planned(request_for(fabric, Collective::kAllgather, 1 << 20))};
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
    for (const Collective collective : kPlanned) {
      for (const uint64_t bytes : {1, 700, 100'000, 5'000'000}) {
        for (const bool ahead : {true, false}) {
          PlanInputs inputs = request_for(fabric, collective, bytes);
          inputs.root = fabric.hosts() - 1;
          inputs.tokens_ahead = ahead;
          inputs.most_parts = collective == Collective::kAllgather ? 3 : 0;
          EXPECT_TRUE(is_direct(*make_problem(inputs))) << what;
          expect_right(inputs, planned(inputs), label(what, inputs));
        }
      }
    }
  };
  for (const std::string& spec : specs) check(network(spec), spec);
  check(two_rings(4, 1e9, 3e8), "two rings");
}

TEST(DirectNetworks, LinksOfVeryDifferentWidths) {
  topology::FabricBuilder builder("a wide and a narrow cable");
  for (int h = 0; h < 3; ++h) builder.add_host(fmt::format("h{}", h));
  for (int s = 0; s < 3; ++s) builder.add_switch(fmt::format("s{}", s));
  const double wide = 1e13, narrow = 1000;
  for (int h = 0; h < 3; ++h) EXPECT_TRUE(builder.connect(h, 1, 3 + h, 1, {wide, 500}));
  EXPECT_TRUE(builder.connect(3, 2, 4, 2, {wide, 500}));
  EXPECT_TRUE(builder.connect(4, 3, 5, 3, {narrow, 500}));
  EXPECT_TRUE(builder.begin_routes());
  ASSERT_TRUE(builder.route_shortest());
  const Fabric fabric = builder.finish().value();
  const PlanInputs inputs = request_for(fabric, Collective::kBcast, 1 << 20);
  const Plan plan = planned(inputs);
  expect_right(inputs, plan, fabric.name());
  EXPECT_EQ(plan.transfers.size(), 2u);
}

TEST(DirectNetworks, NarrowLinksAreLeftOut) {
  const Fabric fabric = triangle({20e9, 500}, {10e9, 500}, {1e8, 500});
  for (const Collective collective :
       {Collective::kAllgather, Collective::kReduceScatter, Collective::kAllreduce}) {
    const PlanInputs inputs = request_for(fabric, collective, 30'000'000);
    const Plan plan = planned(inputs);
    expect_right(inputs, plan, to_string(collective));
    // Results go on when they are complete. By the narrow link one message takes 100 times as long.
    EXPECT_LE(over_bound(plan), collective == Collective::kAllgather ? 1.05 : 2)
        << to_string(collective);
  }
}

TEST(DirectNetworks, BlocksOfDifferentSizesAndServersInAnotherOrder) {
  const Fabric fabric = network("mesh:3x4" + kWide);
  PlanInputs inputs = request_for(fabric, Collective::kAllgather, 0);
  inputs.hosts.resize(12);
  std::iota(inputs.hosts.rbegin(), inputs.hosts.rend(), 0);
  for (int s = 0; s < 12; ++s) inputs.message_bytes.push_back(s == 3 ? 0 : 100'000 * (1 + s % 4));
  for (const Collective collective : {Collective::kAllgather, Collective::kReduceScatter}) {
    inputs.collective = collective;
    const Plan plan = planned(inputs);
    expect_right(inputs, plan, to_string(collective));
    EXPECT_LE(over_bound(plan), 1.3);
  }
}

TEST(DirectNetworks, TheCheckerMissesNoPart) {
  const Fabric fabric = network("torus:3x3" + kWide);
  const PlanInputs inputs = request_for(fabric, Collective::kBcast, 64 << 20);
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

TEST(DirectNetworks, PartsHaveALimit) {
  const Fabric fabric = network("torus:3x3" + kWide);
  PlanInputs inputs = request_for(fabric, Collective::kBcast, 64 << 20);
  auto json = plan_to_json(planned(inputs));
  json["parts"] = kMostParts + 1;
  EXPECT_EQ(plan_from_json(json).error().message,
            "not a plan: messages in 65 parts: must be 1 to 64");
  inputs.most_parts = kMostParts + 1;
  EXPECT_EQ(plan_transfers(inputs).error().message, "messages in 65 parts: must be 0 to 64");
}

TEST(DirectNetworks, NoMorePartsThanWereAskedFor) {
  const Fabric fabric = network("torus:3x3x3" + kWide);
  PlanInputs inputs = request_for(fabric, Collective::kAllgather, 1 << 20);
  inputs.most_parts = 3;
  const Plan cut = planned(inputs);
  ASSERT_EQ(cut.parts, 3);
  expect_right(inputs, cut, "as planned");
  const auto refused = [&](int most) {
    inputs.most_parts = most;
    return check_plan(inputs, cut).error().message;
  };
  EXPECT_EQ(refused(2), "messages of allgather in 3 parts: 1 to 2 were asked for");
  EXPECT_EQ(refused(0), "messages of allgather in 3 parts: 1 to 1 were asked for");
}

TEST(DirectNetworks, OnlyPartsOfABroadcastAreCarriedOut) {
  const Fabric fabric = network("torus:3x3x3" + kWide);
  PlanInputs inputs = request_for(fabric, Collective::kAllgather, 1 << 20);
  inputs.most_parts = 3;
  const TransferPlan plan = transfer_plan(planned(inputs), fabric, {}, 1);
  ASSERT_EQ(plan.parts, 3u);
  const Shape shape = parse_layout("27x1").value();
  AlgorithmOptions options;
  options.plan = std::make_shared<const TransferPlan>(plan);
  const auto programs =
      build_all(*find_algorithm(Collective::kAllgather, "contention_free").value(), shape, options);
  EXPECT_EQ(programs[0]->collective, Collective::kAllgather);
  // Blocks of an allgather are not cut.
  const auto proof = verify(shape, programs);
  ASSERT_FALSE(proof);
  EXPECT_EQ(proof.error().code, ErrorCode::kInvalidProgram) << proof.error().message;
}

// On a thousand servers not all trees that there are can be looked for.
TEST(DirectNetworks, BroadcastsByItselfTakeNoLongerThanInFewerParts) {
  const Fabric fabric = network("torus:10x10x10" + kWide);
  PlanInputs inputs = request_for(fabric, Collective::kBcast, 64 << 20);
  const int64_t by_itself = planned(inputs).time_ns;
  inputs.most_parts = 3;
  EXPECT_LE(by_itself, planned(inputs).time_ns);
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

TEST(DirectNetworks, PartsOfABroadcastHaveNoTokens) {
  const Fabric fabric = network("torus:3x3" + kWide);
  Plan plan = planned(request_for(fabric, Collective::kBcast, 64 << 20));
  ASSERT_EQ(plan.parts, 4);
  const auto last = static_cast<uint32_t>(plan.transfers.size()) - 1;
  ASSERT_NE(plan.transfers[0].from, plan.transfers[last].from);
  plan.tokens = {{0, last, 0, false, 0, 0}};
  for (const bool ahead : {true, false}) {
    plan.tokens_ahead = ahead;
    EXPECT_TRUE(transfer_plan(plan, fabric, {}, 8).tokens.empty());
    EXPECT_GT(transfer_plan(plan, fabric, {}, 8).pieces, 1u);
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
  const auto check = [&](const TreeNetwork& network, int most, size_t count) {
    size_t effort = 1'000'000;
    const auto trees = disjoint_trees(network, 5, most, effort);
    ASSERT_EQ(trees.size(), count);
    std::vector<int> used(arcs.size(), 0), out(16, 0);
    for (const DisjointTree& tree : trees) {
      std::set<int> reached = {5};
      for (const uint32_t a : tree) {
        EXPECT_TRUE(reached.contains(arcs[a].from));
        EXPECT_TRUE(reached.insert(arcs[a].to).second);
        ++used[a];
        ++out[arcs[a].from];
      }
      EXPECT_EQ(reached.size(), 16u);
    }
    for (size_t a = 0; a < arcs.size(); ++a) EXPECT_LE(used[a], arcs[a].trees);
    for (size_t node = 0; node < network.ports.size(); ++node) {
      EXPECT_LE(out[node], network.ports[node]);
    }
  };
  check({16, arcs, {}}, 64, 5);
  check({16, arcs, {}}, 3, 3);
  check({16, arcs, std::vector<int>(16, 3)}, 2, 2);
  check({16, arcs, std::vector<int>(16, 1)}, 2, 1);  // one way begins at the root
}

TEST(DisjointTrees, LookAtNoMoreThanTheyMay) {
  // A torus of 64 nodes, on which most ways are long.
  TreeNetwork network{64, {}, {}};
  for (int node = 0; node < 64; ++node) {
    const int x = node % 8, y = node / 8;
    for (const int step : {1, 7}) {
      network.arcs.push_back({node, y * 8 + (x + step) % 8, 1});
      network.arcs.push_back({node, (y + step) % 8 * 8 + x, 1});
    }
  }
  int most = 8;
  size_t much = 1'000'000, little = 20'000;
  EXPECT_EQ(disjoint_trees(network, 0, most, much).size(), 4u);
  EXPECT_GT(much, 0u);
  EXPECT_EQ(most, 4);
  EXPECT_EQ(disjoint_trees(network, 0, most, little).size(), 0u);
  EXPECT_EQ(little, 0u);
}

TEST(DisjointTrees, OfDenseNetworksAreSoonFound) {
  TreeNetwork network{64, {}, {}};
  for (int from = 0; from < 64; ++from) {
    for (int to = 0; to < 64; ++to) {
      if (from != to) network.arcs.push_back({from, to, 1});
    }
  }
  const size_t enough = 4'000'000;  // flows for all arcs of all trees would look at 16 million
  size_t effort = enough;
  int most = 63;
  EXPECT_EQ(disjoint_trees(network, 0, most, effort).size(), 63u);
}

}  // namespace
}  // namespace ibcoll::contention_free
