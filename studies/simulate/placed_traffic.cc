#include "studies/simulate/placed_traffic.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "studies/simulate/transfers.h"
#include "topology/generators.h"

namespace ibcoll::sim {

Result<topology::Fabric> fabric_of(const topology::Grid& grid) {
  constexpr int64_t kHopNs = 120;
  topology::LinkSpeeds speeds;
  speeds.bandwidth = kGridLinkRate * 2 * topology::Grid::kMaxDimensions;
  speeds.trunks = {kGridLinkRate};
  speeds.latency_ns = kHopNs;
  return topology::grid_fabric(grid.sides(), grid.torus(), 1, speeds);
}

Result<double> placed_traffic_us(const topology::CommMatrix& matrix,
                                 const topology::Placement& placement,
                                 const topology::Fabric& fabric) {
  std::vector<Transfer> transfers;
  for (const topology::Flow& flow : matrix.flows()) {
    const int from = placement[flow.from], to = placement[flow.to];
    if (from == to) continue;
    transfers.push_back({.from = static_cast<uint32_t>(from),
                         .to = static_cast<uint32_t>(to),
                         .bytes = static_cast<uint64_t>(std::llround(flow.bytes))});
  }
  if (transfers.empty()) return 0;
  // Shares are worked out anew a few hundred times in all: each time costs a look at every flow.
  std::vector<double> busy_ns(fabric.links(), 0);
  double longest_ns = 0;
  for (const Transfer& transfer : transfers) {
    const auto from = static_cast<int>(transfer.from), to = static_cast<int>(transfer.to);
    fabric.visit_route(from, to, [&](int link) {
      busy_ns[link] += static_cast<double>(transfer.bytes) / fabric.link(link).bandwidth * 1e9;
      longest_ns = std::max(longest_ns, busy_ns[link]);
    });
  }
  constexpr double kIntervals = 200;
  NetworkOptions options;
  options.level = Level::kFlow;
  options.rate_interval_ns = std::llround(longest_ns / kIntervals);
  IBCOLL_ASSIGN(const TransferTimes times, simulate_transfers(fabric, transfers, options));
  return times.time_us;
}

}  // namespace ibcoll::sim
