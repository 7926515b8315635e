#pragma once
/// LinkSpeeds as the generators use them.

#include <algorithm>

#include "topology/fabric_builder.h"
#include "topology/generators.h"

namespace ibcoll::topology {

/// The cables above switches of `level` (0: those of hosts).
inline Cable link_at_level(const LinkSpeeds& speeds, int level) {
  Cable cable{speeds.bandwidth, speeds.latency_ns};
  if (level > 0 && !speeds.trunks.empty()) {
    cable.bandwidth = speeds.trunks[std::min<size_t>(level, speeds.trunks.size()) - 1];
  }
  return cable;
}

}  // namespace ibcoll::topology
