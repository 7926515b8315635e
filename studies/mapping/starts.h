#pragma once
/// Placements to start from that fit any room: several tasks a node, nodes left out.

#include "studies/mapping/evaluate.h"
#include "studies/mapping/mopt.h"

namespace ibcoll::topology {

/// Tasks in order on the usable nodes in order, each node filled before the next (XYZ order).
Placement in_order(int tasks, const Network& network, const Room& room);

/// MOPT for any room: tasks are first packed into groups of one node each, heaviest partners
/// together; groups whose node may not be used go to the nearest one that is free. Refuses networks
/// that aren't grids.
Result<Placement> mopt_in_room(const CommMatrix& matrix, const Network& network, const Room& room,
                               JoinRule rule);

}  // namespace ibcoll::topology
