#pragma once
/// What the tests of contention-free plans share: networks, requests and what they expect.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/planner/contention_free/check.h"
#include "engine/planner/contention_free/plan.h"
#include "topology/spec.h"

namespace ibcoll::contention_free {

using topology::Fabric;

inline const std::string kLan = ",bandwidth=1Gbit/s,latency=10us";

inline Fabric network(const std::string& spec) {
  auto fabric = topology::open_fabric(spec);
  EXPECT_TRUE(fabric.has_value()) << spec;
  return *fabric;
}

/// The networks that plans are made for, small enough for many plans.
inline const std::vector<std::string>& networks() {
  static const std::vector<std::string> kNetworks = {
      "single-switch:12" + kLan,
      "tree:7x3,hosts=18" + kLan,
      "tree:7x3,hosts=18,trunk-bandwidth=3Gbit/s" + kLan,
      "fat-tree:4,2" + kLan,
      "fat-tree:2,4" + kLan,
      "wan:8,8,long-latency=5ms" + kLan,
      "wan:8,8,long-latency=5ms,trunk-bandwidth=10Gbit/s" + kLan,
      "wan:9,4,long-latency=5ms,trunk-bandwidth=3Gbit/s" + kLan,
      "wan:5,8,6,3,long-latency=5ms,trunk-bandwidth=1Gbit/s:10Gbit/s:2Gbit/s:3Gbit/s" + kLan,
      "random-tree:20,8,seed=3,trunk-bandwidth=300Mbit/s:1Gbit/s:10Gbit/s" + kLan,
      "random-tree:26,9,seed=5,trunk-bandwidth=1Gbit/s:2.5Gbit/s" + kLan,
  };
  return kNetworks;
}

inline PlanInputs request_for(const Fabric& fabric, Collective collective, uint64_t bytes) {
  PlanInputs inputs;
  inputs.collective = collective;
  inputs.server_ranks.assign(fabric.hosts(), 1);
  inputs.block_bytes = bytes;
  inputs.fabric = &fabric;
  return inputs;
}

inline Plan planned(const PlanInputs& inputs) {
  auto plan = plan_transfers(inputs);
  EXPECT_TRUE(plan.has_value()) << (plan ? "" : plan.error().message);
  return plan ? *std::move(plan) : Plan{};
}

inline double over_bound(const Plan& plan) {
  return static_cast<double>(plan.time_ns) / static_cast<double>(plan.bound_ns);
}

inline void expect_right(const PlanInputs& inputs, const Plan& plan, const std::string& what) {
  const Status right = check_plan(inputs, plan);
  EXPECT_TRUE(right.has_value()) << what << ": " << (right ? "" : right.error().message);
}

inline std::string label(const std::string& spec, const PlanInputs& inputs) {
  return fmt::format("{} {} {} {}", spec, to_string(inputs.collective), to_string(inputs.planner),
                     inputs.block_bytes);
}

}  // namespace ibcoll::contention_free
