#pragma once
/// Placement by halving: tasks and nodes are cut in two again and again, each cut taking account of
/// where the rest of the tasks went (dual recursive bipartitioning, Pellegrini 1994).

#include "studies/mapping/evaluate.h"

namespace ibcoll::topology {

struct HalvingOptions {
  bool mesh_hops = false;  ///< count a torus's hops without its wraparound links
  uint64_t seed = 1;
};

/// Boxes of nodes are cut across their longest side. The first cut of a set of tasks goes between
/// those near and far from its rim; passes of moves with the greatest gain in hop-bytes improve it
/// (Fiduccia, Mattheyses 1982). Time O(pairs log(pairs) log(nodes)). For rooms that hold the tasks.
Placement place_by_halving(const CommMatrix& matrix, const Grid& grid, const Room& room,
                           const HalvingOptions& options);

}  // namespace ibcoll::topology
