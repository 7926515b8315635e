#pragma once
/// How fast a collective can be at all.

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// A time that no plan can beat on these routes: over all links, what must pass the link at its
/// bandwidth, after the shortest way to it and before the shortest way from it. Of messages, the
/// ones that come from furthest (or go furthest) are also counted on their own, which is what makes
/// it tight for a gather over a WAN. Of a broadcast or reduction also the shortest tree in which
/// each server sends to one at a time, and no less than kLeastPiece bytes at once. Of data for
/// many or of many, also what all servers have to send together; a link between switches counts
/// alone where the switches form a tree, elsewhere the narrowest cuts do (cut_bound.h); with
/// permitted pairs only the links of hosts and cuts count, and ways are taken as the fabric's.
int64_t lower_bound_ns(const Problem& problem);

}  // namespace ibcoll::contention_free
