#pragma once
/// List scheduling without a given order: whatever can start first goes next.

#include "engine/planner/contention_free/list.h"

namespace ibcoll::contention_free {

/// Places the shipments by the times at which they can start, each when what it forwards has been
/// placed; of several that can start at once first the one on which the longest chain of others
/// depends. For data for many, whose shipments have no good order of their own.
Timing place_eagerly(const Problem& problem);

}  // namespace ibcoll::contention_free
