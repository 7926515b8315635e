#pragma once
/// Trees that reach all nodes of a network side by side.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ibcoll::contention_free {

struct TreeArc {
  int from, to;
  int trees;  ///< that may use it
};

struct TreeNetwork {
  int nodes;
  std::vector<TreeArc> arcs;  ///< one from a node to another at most
  /// By node: how many arcs of all trees may begin there. Empty: any number.
  std::vector<int> ports;
};

/// Indices of arcs, each after the one that leads to where it begins.
using DisjointTree = std::vector<uint32_t>;

/// `count` trees from the root to all nodes, together within what arcs and ports allow. Where there
/// are fewer disjoint ways to some node, `count` becomes the number of those first. Arcs are taken
/// nearest to the root first, each if the others still have ways for the trees to come, which
/// always ends well where ports allow any number (Edmonds, 1973; Lovasz, "On two minimax theorems
/// in graph", 1976, section 2). With narrow ports, whether there are so many trees is hard to say,
/// and none may be found although there are: each node gives every tree the same share of its port.
/// Nor is any when `effort`, arcs that may be looked at, is spent; it is what is left afterwards.
/// All nodes can be reached.
std::vector<DisjointTree> disjoint_trees(const TreeNetwork& network, int root, int& count,
                                         size_t& effort);

}  // namespace ibcoll::contention_free
