#pragma once
/// How much of their time links were busy.

#include <cstdint>
#include <vector>

#include "studies/simulate/routes.h"

namespace ibcoll::sim {

/// The part of `time` that a link needs for `bytes`.
inline double link_utilisation(const SimulatedLink& link, uint64_t bytes, Time time) {
  return time <= 0 ? 0 : static_cast<double>(bytes) * link.ps_per_byte / static_cast<double>(time);
}

/// Of the busiest link.
inline double max_link_utilisation(const Routes& routes, const std::vector<uint64_t>& link_bytes,
                                   Time time) {
  double most = 0;
  for (size_t link = 0; link < link_bytes.size(); ++link) {
    most = std::max(most, link_utilisation(routes.links()[link], link_bytes[link], time));
  }
  return most;
}

}  // namespace ibcoll::sim
