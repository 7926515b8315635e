#pragma once
/// How fast a collective can be at all.

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// A time that no plan can beat. Messages for one server are taken to go straight, on the routes:
/// over all links, what must pass the link at its bandwidth, after the shortest way to it and
/// before the shortest way from it. Of messages, the ones that come from furthest (or go furthest)
/// are also counted on their own, which is what makes it tight for a gather over a WAN. With
/// permitted pairs, and with `relayed` where switches form no tree, they may go through other
/// servers: then only the links of hosts count, and of a message alone the shortest and the widest
/// way that there are.
///
/// Of data for many or of many, a link between switches counts alone where the switches form a tree
/// and all pairs may send; elsewhere the narrowest cuts do (cut_bound.h). In addition, what all
/// servers have to send together passes their ports, and where no two share a switch the cables
/// between switches. Of a broadcast or reduction also the shortest tree in which each server sends
/// to one at a time, and no less than kLeastPiece bytes at once; not of a broadcast on direct
/// networks, whose parts may go different ways at once, nor where a port is twice as wide as the
/// narrowest link.
int64_t lower_bound_ns(const Problem& problem, bool relayed = false);

}  // namespace ibcoll::contention_free
