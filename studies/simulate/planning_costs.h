#pragma once
/// What it takes to plan, very roughly: for what must be refused before it begins.

#include <cstdint>

#include "engine/schedule/collective_traits.h"
#include "topology/fabric.h"

namespace ibcoll::sim {

/// Memory of a plan, with all that is used on the way.
uint64_t planning_bytes(Collective collective, int64_t servers);

/// Time of planning by lists: by the number of transfers and the length of some routes.
double planning_seconds(Collective collective, int servers, const topology::Fabric& fabric);

}  // namespace ibcoll::sim
