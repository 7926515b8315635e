#pragma once
/// Which core each rank of this machine runs on.

#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

/// Processing units (hardware threads) by the number the operating system gives them.
using CpuSet = std::vector<int>;

/// The cores this process might use when it first asked (a launcher asks before it binds its
/// ranks), each with the processing units it may use of it, in the order of the machine: cores that
/// share a cache or a package are neighbours.
const Result<std::vector<CpuSet>>& usable_core_sets();

/// The processing units to bind each of `ranks` ranks to. Up to one rank a core they are spread
/// evenly over the machine with neighbours in rank kept near, so that packages share the load; with
/// more, rank r runs on core r mod cores. Empty where there is only one core: nothing to choose.
std::vector<CpuSet> plan_binding(int ranks, const std::vector<CpuSet>& cores);

/// Binds the calling thread.
Status bind_thread(const CpuSet& units);

}  // namespace ibcoll
