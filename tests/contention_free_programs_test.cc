// Plans of the planner as programs: what a plan says is carried out, on every shape, and proved
// like any other schedule. That they move the right bytes: execute_sweep.

#include <gtest/gtest.h>

#include <numeric>

#include "engine/algorithms/registry.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"
#include "engine/simulate/collective.h"
#include "topology/spec.h"

namespace ibcoll::contention_free {
namespace {

const char* const kFabrics[] = {
    "single-switch:8",
    "fat-tree:4,2",
    "torus:2x4",
};

std::vector<Shape> shapes() {
  return {parse_layout("6x1").value(), parse_layout("3,1,2,2").value(),
          parse_layout("4x3", Placement::kCyclic).value(), parse_layout("2").value(),
          parse_layout("1,1").value()};
}

std::vector<int> hosts_of(const Shape& shape) {
  std::vector<int> hosts(shape.servers());
  std::iota(hosts.rbegin(), hosts.rend(), 0);  // not in the order of servers
  return hosts;
}

std::vector<const Algorithm*> planned() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name == "contention_free") all.push_back(&algorithm);
  }
  return all;
}

TEST(ContentionFreePrograms, EveryKindIsPlanned) {
  EXPECT_EQ(planned().size(), kCollectives.size() - 1);  // a barrier moves nothing
}

TEST(ContentionFreePrograms, HoldOnEveryFabricAndShape) {
  for (const char* name : kFabrics) {
    PlanStore plans(topology::parse_fabric_spec(name).value());
    for (const Shape& shape : shapes()) {
      for (const Algorithm* algorithm : planned()) {
        for (const int64_t bytes : {100, 100'000}) {
          AlgorithmOptions options;
          options.root = shape.ranks() / 2;
          const auto plan =
              plans.find(algorithm->collective, shape, hosts_of(shape), options.root, bytes);
          ASSERT_TRUE(plan) << plan.error().message;
          options.plan = *plan;
          const auto report = verify(shape, build_all(*algorithm, shape, options));
          ASSERT_TRUE(report) << to_string(algorithm->collective) << " of " << bytes << " bytes on "
                              << name << ", " << shape.describe() << ": " << report.error().message;
        }
      }
    }
  }
}

/// Where some pairs may not connect, messages go through other servers.
TEST(ContentionFreePrograms, HoldWhereMessagesAreRelayed) {
  const topology::Fabric fabric = topology::parse_fabric_spec("single-switch:6").value();
  for (const char* layout : {"6x1", "2,1,3,1,2,1"}) {
    const Shape shape = parse_layout(layout).value();
    for (const Algorithm* algorithm : planned()) {
      PlanRequest request;
      request.fabric = &fabric;
      request.block_bytes = 65536;
      for (int s = 0; s < shape.servers(); ++s)
        request.server_ranks.push_back(shape.server_size(s));
      request.permitted = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {1, 4}};
      switch (algorithm->collective) {
        case Collective::kGather:
        case Collective::kGatherv:
          request.kind = Kind::kGather;
          break;
        case Collective::kScatter:
        case Collective::kScatterv:
          request.kind = Kind::kScatter;
          break;
        case Collective::kAllgather:
        case Collective::kAllgatherv:
          request.kind = Kind::kAllgather;
          break;
        case Collective::kBcast:
          request.kind = Kind::kBcast;
          break;
        case Collective::kReduce:
          request.kind = Kind::kReduce;
          break;
        default:
          request.kind = Kind::kAlltoall;
      }
      AlgorithmOptions options;
      options.root = shape.rank_at(2, 0);
      request.root = 2;
      for (const bool ahead : {false, true}) {
        request.tokens_ahead = ahead;
        const auto plan = plan_transfers(request);
        ASSERT_TRUE(plan) << plan.error().message;
        options.plan = std::make_shared<const TransferPlan>(transfer_plan(*plan, fabric, {}));
        const auto report = verify(shape, build_all(*algorithm, shape, options));
        ASSERT_TRUE(report) << to_string(algorithm->collective) << ", " << layout << ": "
                            << report.error().message;
      }
    }
  }
}

TEST(ContentionFreePrograms, APlanIsMadeOnceForASizeClass) {
  PlanStore plans(topology::parse_fabric_spec("single-switch:4").value());
  const Shape shape = parse_layout("4x2").value();
  const auto find = [&](Collective collective, int64_t bytes, Rank root) {
    return plans.find(collective, shape, hosts_of(shape), root, bytes).value();
  };
  const auto first = find(Collective::kGather, 5000, 0);
  EXPECT_EQ(find(Collective::kGather, 8192, 1), first);  // of the same server
  EXPECT_NE(find(Collective::kGather, 8193, 0), first);
  EXPECT_NE(find(Collective::kGather, 5000, 2), first);
  EXPECT_EQ(find(Collective::kBarrier, 0, 0), nullptr);
  const auto beyond = plans.find(Collective::kGather, shape, std::vector<int>{0, 1, 2, 9}, 0, 100);
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().message.find('9'), std::string::npos) << beyond.error().message;
}

/// The sender after the next one waits for the token: no two blocks meet at the root.
TEST(ContentionFreePrograms, AGatherFillsTheRootsLink) {
  const topology::Fabric fabric = topology::parse_fabric_spec("single-switch:8").value();
  PlanStore plans(fabric);
  const Shape shape = parse_layout("8x1").value();
  sim::CollectiveOptions options;
  options.run.block_bytes = 1 << 20;
  options.algorithm.plan =
      plans.find(Collective::kGather, shape, hosts_of(shape), 0, 1 << 20).value();
  for (int host : hosts_of(shape)) options.hosts.push_back(static_cast<uint32_t>(host));
  const auto* algorithm = find_algorithm(Collective::kGather, "contention_free").value();
  const auto report = sim::simulate(*algorithm, shape, fabric, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->link_fraction, 0.95);
  EXPECT_TRUE(verify(shape, build_all(*algorithm, shape, options.algorithm))->paced);
}

}  // namespace
}  // namespace ibcoll::contention_free
