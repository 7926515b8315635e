#pragma once
/// Trees that share no link.

#include <cstdint>
#include <vector>

namespace ibcoll::contention_free {

struct TreeArc {
  int from, to;
  int trees;  ///< that may use it
};

/// Indices of arcs, each after the one that leads to where it begins.
using DisjointTree = std::vector<uint32_t>;

/// Trees from the root to all nodes, together within what each arc allows: as many as there are
/// disjoint ways to the node with the fewest (Edmonds, 1973), or `most`. Arcs are taken nearest to
/// the root first, each if the others still have ways for the trees to come (Lovasz, "On two
/// minimax theorems in graph", 1976, section 2). All nodes can be reached.
std::vector<DisjointTree> disjoint_trees(int nodes, const std::vector<TreeArc>& arcs, int root,
                                         int most);

}  // namespace ibcoll::contention_free
