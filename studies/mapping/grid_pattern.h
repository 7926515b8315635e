#pragma once
/// Grids behind traffic: stencils and hypercubes whose tasks are in any order, one or several side
/// by side, with some foreign messages among them.

#include <optional>
#include <vector>

#include "studies/mapping/grid.h"
#include "studies/mapping/matrix.h"

namespace ibcoll::topology {

/// Tasks that exchange with their neighbours in a grid, or in equal grids that have nothing to do
/// with each other.
struct GridPattern {
  Grid shape;  ///< of each of them; a torus where its ends exchange, too
  int copies = 1;
  /// Copy * shape.nodes() + node in the shape; -1 for tasks in none.
  std::vector<int> place;
};

/// None where no grid of at least two dimensions accounts for the traffic. Pairs that send less
/// than half of what the heavier of the two's busiest pair sends don't count, nor do pairs without
/// the circles of four that are beside every step in a grid. Time O(pairs x partners^2) and that of
/// some calls of embed().
std::optional<GridPattern> find_grid_pattern(const CommMatrix& matrix);

}  // namespace ibcoll::topology
