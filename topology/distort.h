#pragma once
/// Fabrics that are not quite known.

#include <cstdint>

#include "topology/fabric.h"

namespace ibcoll::topology {

/// The same fabric as somebody would describe who is wrong about it: the bandwidth and the latency
/// x of each cable are ((2R - 1) r + 1) x, with R drawn evenly from [0, 1) for each (section 6.4 of
/// the thesis on contention-free collectives). Refuses r outside 0 to 0.95.
Result<Fabric> distort(const Fabric& fabric, double r, uint64_t seed);

/// The other way round: cables of one kind (of hosts, between switches) whose bandwidths differ by
/// no more than errors of `r` explain, (1 + r) / (1 - r) from the least to the most of them, are
/// taken to have the same, their mean; latencies likewise. Refuses r outside 0 to 0.95.
Result<Fabric> merge_alike(const Fabric& fabric, double r);

}  // namespace ibcoll::topology
