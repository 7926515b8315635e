#pragma once
/// Placement by halving: tasks and nodes are cut in two again and again, each cut taking account of
/// where the rest of the tasks went (dual recursive bipartitioning, Pellegrini 1994).

#include "studies/mapping/evaluate.h"

namespace ibcoll::topology {

struct HalvingOptions {
  bool mesh_hops = false;  ///< count a torus's hops without its wraparound links
  uint64_t seed = 1;
};

/// Boxes of nodes are cut across their longest side, tasks as bisect.h says. Time O(pairs
/// log(pairs) log(nodes)). For rooms that hold the tasks.
Placement place_by_halving(const CommMatrix& matrix, const Grid& grid, const Room& room,
                           const HalvingOptions& options);

/// The same for a hierarchy, whose groups are cut into halves of their members, the largest groups
/// first.
Placement place_by_halving(const CommMatrix& matrix, const Hierarchy& hierarchy, const Room& room,
                           uint64_t seed);

}  // namespace ibcoll::topology
