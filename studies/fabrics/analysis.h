#pragma once
/// What the routes of a fabric amount to.

#include <cstdint>
#include <vector>

#include "topology/fabric.h"

namespace ibcoll::topology {

/// By link: how many of the routes between all ordered pairs of hosts pass it.
std::vector<int64_t> routes_over_links(const Fabric& fabric);

/// What uniform all-to-all traffic, one host a server, comes to at most.
struct AllToAllLimit {
  double bandwidth = 0;  ///< bytes a second that each host sends to all others together
  double fraction = 0;   ///< of what the slowest host's link alone would allow
  int link = -1;         ///< that limits it; -1 with one host
};
AllToAllLimit all_to_all_limit(const Fabric& fabric);
/// The same from the routes that pass each link (of routes_over_links).
AllToAllLimit all_to_all_limit(const Fabric& fabric, const std::vector<int64_t>& routes);

/// A cycle of links in which packets can wait for each other's buffers for ever, each following the
/// one before on some route and the last leading to the first again, where all routes share one
/// virtual lane; empty where they are free of such deadlocks (Dally and Seitz 1987).
std::vector<int> find_credit_loop(const Fabric& fabric);

/// Virtual lanes that layered routing (LaneAssigner) needs to rid all routes of credit loops, each
/// pair keeping to one lane; 1 where there are none.
int lanes_needed(const Fabric& fabric);

}  // namespace ibcoll::topology
