#pragma once
/// Placements where every message goes to a neighbouring node: the optimum of scrambled stencils,
/// found by following the pattern instead of searching among placements.

#include <optional>
#include <vector>

#include "studies/mapping/evaluate.h"

namespace ibcoll::topology {

struct EmbedOptions {
  /// Pairs that send less than this part of what the heavier of the two's busiest pair sends don't
  /// count; 0: all do.
  double significant = 0;
  bool mesh_hops = false;  ///< leave a torus's wraparound links out
  /// Placings tried, those taken back included, before it gives up; 0: ten a task.
  int64_t most_steps = 0;
};

/// The partners of each task, ascending, without pairs that don't count: see
/// EmbedOptions::significant.
std::vector<std::vector<int>> partners_that_count(const CommMatrix& matrix, double significant);

/// A placement with the partners of every pair that counts on neighbouring nodes, one task a node.
/// With all pairs counting its hop-bytes and its largest link load are both the least there can be.
/// None where the grid has no room for one, and where none was found in `most_steps`: tasks are
/// placed in order of how few nodes are left for them, and taken back where one has none left
/// (subgraph isomorphism; quick where the pattern leaves little choice, as stencils do).
std::optional<Placement> embed(const CommMatrix& matrix, const Grid& grid, const Room& room,
                               const EmbedOptions& options);

}  // namespace ibcoll::topology
