#pragma once
/// MOPT: placement by merging groups of tasks pairwise (Sano, Kise, "Task Mapping Method for
/// Mesh/Torus Connection Network", IPSJ SIG 2011-HPC-132 No.15).

#include <vector>

#include "engine/base/result.h"
#include "studies/mapping/grid.h"
#include "studies/mapping/matrix.h"

namespace ibcoll::topology {

/// How two groups are joined once they are chosen.
enum class JoinRule {
  kNone,     ///< one fixed way: the second group translated next to the first (figure 3, C1 to B2)
  kMinCost,  ///< the way with the fewest hop-bytes inside the new group
  kMinLink,  ///< the way with the smallest load of any link in it; hop-bytes break ties
};

/// The node of each task. Where the paper leaves a choice open:
/// - Any sides: the box of all nodes is halved along its longest side (the last one of equals)
///   until single nodes remain, odd sides into ceiling and floor; groups have the shapes that this
///   tree of boxes asks for. For sides of equal powers of two that is the paper's order.
/// - Tasks that don't communicate fill the network where there are fewer tasks than nodes.
/// - CommGroup adds up both directions; equal partners: the first in the queue.
/// - Ways of joining: every turn and reflection that keeps a group's shape, of both groups, up to
///   reflections of the whole; from four dimensions on an even selection of them. Equal ways: the
///   first.
/// - Hops and links inside a group are those of a mesh.
/// Time O(N log N) for none and about O(ways * pairs * hops) for the others, for sparse matrices.
Result<std::vector<int>> mopt(const CommMatrix& matrix, const Grid& grid, JoinRule rule);

}  // namespace ibcoll::topology
