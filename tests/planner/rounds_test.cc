/// All-to-alls where switches form no tree: shipments in rounds in which none meets another.

#include "engine/planner/contention_free/rounds.h"

#include <algorithm>
#include <numeric>

#include "engine/planner/contention_free/list.h"
#include "engine/planner/contention_free/shipments.h"
#include "tests/planner/contention_free_networks.h"

namespace ibcoll::contention_free {
namespace {

struct Case {
  const char* spec;
  double most_over_bound;
};

void expect_near(const Case& of, int servers = 0) {
  const Fabric fabric = network(of.spec);
  PlanInputs inputs = request_for(fabric, Collective::kAlltoall, 100 << 10);
  if (servers > 0) inputs.server_ranks.resize(servers);
  const Plan plan = planned(inputs);
  expect_right(inputs, plan, label(of.spec, inputs));
  EXPECT_LE(over_bound(plan), of.most_over_bound) << of.spec;
}

TEST(Rounds, AlltoallsAreNearTheBound) {
  for (const Case& of : {Case{"torus:4x4", 1.08}, Case{"torus:5x7", 1.08}, Case{"torus:16", 1.08},
                         Case{"torus:4x4x4", 1.08}, Case{"torus:8x8", 1.08}, Case{"mesh:4x5", 1.08},
                         Case{"mesh:5x5", 1.08}, Case{"mesh:8x8", 1.08},
                         Case{"dragonfly:2,4,2", 1.1}, Case{"dragonfly:2,4,2,groups=4", 1.08}}) {
    expect_near(of);
  }
}

TEST(Rounds, LargeAlltoallsAreNearTheBoundFull) {
  expect_near({"torus:8x8x8", 1.08});
  expect_near({"dragonfly:4,8,4", 1.15}, 1024);
}

Problem alltoall(const PlanInputs& inputs) {
  Problem problem = *make_problem(inputs);
  EXPECT_TRUE(make_shipments(problem, Spread::kChain));
  return problem;
}

TEST(Rounds, HaveEachShipmentOnceAndFewRounds) {
  // Without latencies rounds last as long as a shipment.
  for (const char* spec : {"torus:4x5", "mesh:3x3x3", "dragonfly:2,4,2,groups=5"}) {
    const Fabric fabric = network(std::string(spec) + ",latency=0ns,switch-latency=0ns");
    const PlanInputs inputs = request_for(fabric, Collective::kAlltoall, 1 << 20);
    const Problem problem = alltoall(inputs);
    std::vector<uint32_t> order = round_order(problem);
    const Timing timing = place_shipments(problem, order, Place::kInTurn, INT64_MAX);
    const int64_t length = problem.shipments[0].duration_ns;
    int64_t busiest = 0;
    for (const LinkUse& use : problem.links) busiest = std::max(busiest, use.shipments);
    EXPECT_LE(timing.time_ns, length * (busiest + busiest / 10 + 1)) << spec;
    std::sort(order.begin(), order.end());
    std::vector<uint32_t> all(problem.shipments.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all) << spec;
  }
}

TEST(Rounds, AreOfShipmentsThatTakeTheSameTime) {
  const Fabric fabric = network("torus:3x4");
  PlanInputs inputs = request_for(fabric, Collective::kAlltoall, 0);
  for (int i = 0; i < 12 * 12; ++i) inputs.message_bytes.push_back(100'000 + i % 5 * 10'000);
  EXPECT_TRUE(round_order(alltoall(inputs)).empty());
  const Plan plan = planned(inputs);
  expect_right(inputs, plan, "messages of different sizes");
  std::fill(inputs.message_bytes.begin(), inputs.message_bytes.end(), 100'000);
  EXPECT_EQ(round_order(alltoall(inputs)).size(), 12u * 11);
  // Some pairs have nothing for each other.
  for (int i = 0; i < 12 * 12; i += 3) inputs.message_bytes[i] = 0;
  const Problem some = alltoall(inputs);
  EXPECT_EQ(round_order(some).size(), some.shipments.size());
  expect_right(inputs, planned(inputs), "some pairs");
  std::fill(inputs.message_bytes.begin(), inputs.message_bytes.end(), 0);
  EXPECT_TRUE(round_order(alltoall(inputs)).empty());
}

}  // namespace
}  // namespace ibcoll::contention_free
