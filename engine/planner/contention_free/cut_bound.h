#pragma once
/// How long data for many takes to leave, or to reach, any part of a network.

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// A time that no way of sending can beat, whatever the routes: the largest, over sets of nodes, of
/// what some server of the set has for one outside it, over the bandwidth of all links that leave
/// the set; of partial results the same the way back. 0 for collectives whose messages are each for
/// one server. Of data for many the largest cut is found by flows, one a server: what reaches a
/// server in time t is at most what flows to it where each link carries what it can in t
/// ("ForestColl: Throughput-Optimal Collective Communications on Heterogeneous Network Fabrics",
/// Zhao et al., 2024, section 4). On networks too large for that only single servers and single
/// switches with their servers are cut off.
double cut_bound_ns(const Problem& problem);

}  // namespace ibcoll::contention_free
