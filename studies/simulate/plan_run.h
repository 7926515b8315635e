#pragma once
/// Runs contention-free plans on a simulated network.

#include <cstdint>
#include <vector>

#include "engine/base/result.h"
#include "engine/planner/contention_free/plan.h"
#include "studies/simulate/network.h"
#include "topology/fabric.h"

namespace ibcoll::sim {

struct PlanTimes {
  double time_us = 0;  ///< until the last transfer is delivered
  /// The most that a transfer from where its data is from the beginning took longer than it would
  /// have alone: what it waited for others on its links.
  double waited_us = 0;
  std::vector<int64_t> begin_ns, end_ns;  ///< of each transfer: may be sent, delivered
  std::vector<uint64_t> link_bytes;       ///< by link of the fabric
};

/// Runs a plan on an idle fabric, which need not be the one it was made for: transfers start when
/// their tokens are there and their time has come, as Token says, tokens go by the progress of what
/// they are anchored to, pieces are passed on as they arrive, and what meets on a link shares it.
/// Packet level, with packets of packet_bytes(plan): times are off by about a packet. `hosts`: of
/// the servers; empty: server s is host s. Fails on a plan whose waits go round in a cycle.
Result<PlanTimes> simulate_plan(const topology::Fabric& fabric, const std::vector<int>& hosts,
                                const contention_free::Plan& plan);

}  // namespace ibcoll::sim
