// Programs of contention_free in simulated time: tokens come when they should, and the engine
// chooses what is fastest.

#include <gtest/gtest.h>

#include <numeric>

#include "engine/algorithms/registry.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"
#include "engine/tuner/choose.h"
#include "studies/simulate/collective.h"
#include "tests/algorithm_lists.h"
#include "tests/planner/plan_hosts.h"
#include "topology/spec.h"

namespace ibcoll::contention_free {
namespace {

/// Time of one call, `plan` null: of an algorithm that needs none.
double simulated_us(Collective collective, std::string_view name, const Shape& shape,
                    const topology::Fabric& fabric, int64_t bytes,
                    std::shared_ptr<const TransferPlan> plan) {
  sim::CollectiveOptions options;
  options.run.block_bytes = static_cast<uint64_t>(bytes);
  options.run.pieces = relayed_pieces(bytes, plan.get());
  options.algorithm.plan = std::move(plan);
  const auto* algorithm = find_algorithm(collective, name).value();
  return sim::simulate(*algorithm, shape, fabric, options).value().time_us;
}

/// Messages that are shorter than a token's way: it goes with one that came long before.
TEST(ContentionFreeTimes, TokensOfShortMessagesGoWithEarlierOnes) {
  const topology::Fabric fabric =
      topology::parse_fabric_spec("wan:8,8,bandwidth=1Gbit/s,latency=10us,long-latency=1ms")
          .value();
  const Shape shape = parse_layout("16x1").value();
  std::vector<int> hosts(16);
  std::iota(hosts.begin(), hosts.end(), 0);
  PlanStore plans(fabric);
  for (const Collective collective : {Collective::kGather, Collective::kAlltoall}) {
    for (const int64_t bytes : {4096, 16384}) {
      const auto plan = plans.find(collective, shape, hosts, 0, bytes).value();
      const double planned =
          simulated_us(collective, "contention_free", shape, fabric, bytes, plan);
      const double all_at_once = simulated_us(collective, "linear", shape, fabric, bytes, nullptr);
      EXPECT_LT(planned, 1.2 * all_at_once) << to_string(collective) << " of " << bytes;
    }
  }
}

/// Where a gather has nothing to order, nothing is ordered: the same program.
TEST(ContentionFreeTimes, ASingleSenderSendsAsInLinear) {
  const Shape shape = parse_layout("2x1").value();
  PlanStore plans(topology::parse_fabric_spec("single-switch:2,latency=500us").value());
  AlgorithmOptions options;
  options.plan =
      plans.find(Collective::kGather, shape, testing::hosts_backwards(shape), 0, 256 << 10).value();
  EXPECT_EQ(relayed_pieces(256 << 10, options.plan.get()), 1u);
  const auto* planned = find_algorithm(Collective::kGather, "contention_free").value();
  const auto* linear = find_algorithm(Collective::kGather, "linear").value();
  const auto kinds = [](const RankProgram& program) {
    std::vector<std::pair<OpKind, uint32_t>> all;
    for (const auto& lane : program.lanes) {
      for (const Op& op : lane) all.emplace_back(op.kind, op.count);
    }
    EXPECT_TRUE(program.streams.empty());
    return all;
  };
  for (const Rank me : {0, 1}) {
    EXPECT_EQ(kinds(*planned->build(shape, me, options)), kinds(*linear->build(shape, me, {})));
  }
}

/// What the engine chooses for a gather is at most a few percent off the best there is, all of
/// which the simulator does not hold against linear what incast costs real networks.
TEST(ContentionFreeTimes, AutoTakesAPlanForAGatherWhereItCostsNothing) {
  const char* const fabrics[] = {
      "single-switch:16",
      "single-switch:16,bandwidth=1Gbit/s,latency=10us",
      "fat-tree:4,2",
      "tree:4x4,trunk-bandwidth=1000MB/s",
      "tree:4x4,trunk-bandwidth=1000MB/s,latency=10us",
      "torus:4x4",
      "random-tree:16,6",
      "wan:8,8,bandwidth=1Gbit/s,latency=10us,long-latency=1ms",
  };
  const Shape shape = parse_layout("16x1").value();
  std::vector<int> hosts(16);
  std::iota(hosts.begin(), hosts.end(), 0);
  int planned = 0;
  for (const char* name : fabrics) {
    const topology::Fabric fabric = topology::parse_fabric_spec(name).value();
    PlanStore plans(fabric);
    for (const int64_t bytes : {8, 512, 4096, 16384, 65536, 262144}) {
      const auto plan = plans.find(Collective::kGather, shape, hosts, 0, bytes).value();
      double best = INFINITY;
      for (const Algorithm* const other : testing::unplanned_algorithms_of(Collective::kGather)) {
        best = std::min(
            best, simulated_us(Collective::kGather, other->name, shape, fabric, bytes, nullptr));
      }
      const Choice choice = choose({Collective::kGather, shape, bytes});
      if (choice.planned.empty() || !plan_pays(*plan, choice.plan_rule, 0))
        continue;  // small ones go by the tree for what messages cost their ranks
      ++planned;
      const double time =
          simulated_us(Collective::kGather, "contention_free", shape, fabric, bytes, plan);
      EXPECT_LT(time, 1.03 * best) << bytes << " bytes on " << name;
    }
  }
  EXPECT_GT(planned, 10);
}

/// Tokens that are sent ahead arrive when the sender before is done: nothing is lost between them,
/// and nothing has to be relayed for that.
TEST(ContentionFreeTimes, TokensSentAheadHideTheirOwnWay) {
  const topology::Fabric fabric =
      topology::parse_fabric_spec("single-switch:8,latency=100us,bandwidth=1Gbit/s").value();
  const Shape shape = parse_layout("8x1").value();
  constexpr int64_t kBytes = 256 << 10;
  PlanStore plans(fabric);
  sim::CollectiveOptions options;
  options.algorithm.plan =
      plans.find(Collective::kGather, shape, testing::hosts_backwards(shape), 0, kBytes).value();
  options.run.block_bytes = kBytes;
  options.run.pieces = relayed_pieces(kBytes, options.algorithm.plan.get());
  for (int host : testing::hosts_backwards(shape))
    options.hosts.push_back(static_cast<uint32_t>(host));
  const auto* algorithm = find_algorithm(Collective::kGather, "contention_free").value();
  const auto report = sim::simulate(*algorithm, shape, fabric, options).value();
  EXPECT_EQ(report.messages, 6 * options.run.pieces + 1);  // nobody waits for the last
  // What is left when the token goes: its own way, and the first byte's.
  EXPECT_EQ(options.run.pieces, 2u);
  EXPECT_NEAR(static_cast<double>(options.algorithm.plan->last_part) / TransferPlan::kParts,
              2 * 200 / (8e-3 * kBytes), 0.01);
  const double sent_us = 7 * 8e-3 * kBytes,
               there_us = 2 * 200;  // the first exposure, the last byte
  EXPECT_LT(report.time_us, 1.04 * (sent_us + there_us));

  options.run.pieces = 1;  // at full arrival
  const auto late = sim::simulate(*algorithm, shape, fabric, options).value();
  EXPECT_GT(late.time_us, sent_us + there_us + 6 * 2 * 200);
}

/// The sender after the next one waits for the token: no two blocks meet at the root.
TEST(ContentionFreeTimes, AGatherFillsTheRootsLink) {
  const topology::Fabric fabric = topology::parse_fabric_spec("single-switch:8").value();
  PlanStore plans(fabric, {.tokens_ahead = false});
  const Shape shape = parse_layout("8x1").value();
  sim::CollectiveOptions options;
  options.run.block_bytes = 1 << 20;
  options.algorithm.plan =
      plans.find(Collective::kGather, shape, testing::hosts_backwards(shape), 0, 1 << 20).value();
  for (int host : testing::hosts_backwards(shape))
    options.hosts.push_back(static_cast<uint32_t>(host));
  const auto* algorithm = find_algorithm(Collective::kGather, "contention_free").value();
  const auto report = sim::simulate(*algorithm, shape, fabric, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->link_fraction, 0.95);
  EXPECT_TRUE(verify(shape, build_all(*algorithm, shape, options.algorithm))->paced);
}

}  // namespace
}  // namespace ibcoll::contention_free
