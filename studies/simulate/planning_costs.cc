#include "studies/simulate/planning_costs.h"

#include <random>

#include "engine/planner/contention_free/plan.h"

namespace ibcoll::sim {

namespace {

/// Of each transfer, and for each link of its route.
constexpr int64_t kTransferBytes = 900;
constexpr double kLinkSeconds = 0.8e-6;

}  // namespace

uint64_t planning_bytes(Collective collective, int64_t servers) {
  return static_cast<uint64_t>(contention_free::transfers_of(collective, servers) * kTransferBytes);
}

double planning_seconds(Collective collective, int servers, const topology::Fabric& fabric) {
  constexpr int kRoutes = 1000;
  double links = 0;
  std::mt19937 random(1);
  for (int i = 0; i < kRoutes; ++i) {
    const auto from = static_cast<int>(random() % servers);
    const auto to = static_cast<int>(random() % servers);
    links += fabric.hops(from, to);
  }
  return static_cast<double>(contention_free::transfers_of(collective, servers)) * links / kRoutes *
         kLinkSeconds;
}

}  // namespace ibcoll::sim
