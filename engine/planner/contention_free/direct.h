#pragma once
/// Data for many on direct networks: tori, meshes, hypercubes and all others in which each server
/// has a switch of its own, such as GPUs that are linked to each other. There servers pass
/// everything on to their neighbours, and each message takes whatever way is free.

#include "engine/planner/contention_free/list.h"
#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// Whether a switch has one server at most, and pairs of servers whose route passes no other
/// server's switch lead from each server to all. Where sums are formed they have to go both ways.
bool is_direct(const Problem& problem);

/// Fills the shipments and measures them, and says when each starts. Of an allgather messages are
/// matched to links as they fall free (match.h). A reduce_scatter is an allgather backwards, an
/// allreduce the one after the other, sums going on as soon as they are complete. A bcast goes in
/// parts, each along a tree of its own, of as many trees as links and ports carry at once
/// (disjoint_trees.h). Only of networks that are direct, and of these collectives. A time of
/// INT64_MAX: there are no trees, or messages are too short for them.
Result<Timing> spread_directly(Problem& problem, int64_t bound_ns);

}  // namespace ibcoll::contention_free
