#pragma once
/// Placements on few nodes: all of them, or descents from many.

#include "studies/mapping/anneal.h"

namespace ibcoll::topology {

/// Places there are for tasks.
int usable_slots(const Network& network, const Room& room);

/// The best of all placements. Refuses more than kExhaustiveSlots places.
inline constexpr int kExhaustiveSlots = 9;
Result<Placement> exhaustive(const CommMatrix& matrix, const Network& network, const Room& room,
                             const Goal& goal);

/// The best end of descents from random placements, each by the best exchange of two places, until
/// a limit is reached (a placement looked at is a move). For up to kFewSlots places.
inline constexpr int kFewSlots = 16;
Placement descend_often(const CommMatrix& matrix, const Network& network, const Room& room,
                        const Goal& goal, const AnnealLimits& limits, uint64_t seed);

}  // namespace ibcoll::topology
