#pragma once
/// List scheduling in the order of time: senders choose what to send when they are free.

#include "engine/planner/contention_free/list.h"

namespace ibcoll::contention_free {

/// The sender that is free first takes, of what it has left, what can start first; where several
/// can, what passes the link with the most left to carry. So the links on which the time depends
/// always have something to do, and what does not need them fills the time in which they are full.
/// Takes the time of servers^3 routes. Of shipments that forward nothing.
Timing place_in_time(const Problem& problem);

}  // namespace ibcoll::contention_free
