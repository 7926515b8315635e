#pragma once
/// What it takes to plan, very roughly: for what must be refused before it begins.

#include <cstdint>

#include "engine/planner/contention_free/plan.h"
#include "topology/fabric.h"

namespace ibcoll::sim {

/// Memory of a plan, with all that is used on the way.
uint64_t planning_bytes(contention_free::Kind kind, int64_t servers);

/// Time of planning by lists: by the number of transfers and the length of some routes.
double planning_seconds(contention_free::Kind kind, int servers, const topology::Fabric& fabric);

}  // namespace ibcoll::sim
