#pragma once
/// Equal groups of tasks, and tilings of a torus with them: for traffic whose heaviest part stays
/// in small groups (butterflies, Bruck, recursive doubling) the shape of a group decides how heavy
/// the heaviest link can become.

#include <array>
#include <optional>
#include <vector>

#include "studies/mapping/evaluate.h"

namespace ibcoll::topology {

/// Tasks in groups of four ("units") with the same traffic inside.
struct Units {
  static constexpr int kSize = 4;
  std::vector<int> tasks;  ///< unit * kSize + place
  /// The ways to deal a unit's tasks to its places that leave its traffic as it is, the first one
  /// changing nothing.
  std::vector<std::array<int, kSize>> turns;

  int count() const { return static_cast<int>(tasks.size()) / kSize; }
};

/// Pairs the tasks by heaviest traffic, then the pairs. None if tasks are left over or the groups
/// differ inside.
std::optional<Units> equal_fours(const CommMatrix& matrix);

/// Where the copies of a tile lie.
struct Tiling {
  std::vector<int> nodes;  ///< copy * Units::kSize + place; a copy's first place is its site
  double largest = 0;      ///< load of the heaviest link by the traffic inside units
};

/// The tilings with the smallest load of any link by the traffic inside units, of those the ones of
/// the smallest sum of squares; shifted ones count once. Tiles are four nodes, the farthest two
/// hops apart in a dimension, repeated by a lattice of index four. None for meshes, for more than
/// three dimensions, and where no lattice fits the sides.
std::vector<Tiling> tile_torus(const CommMatrix& matrix, const Units& units, const Grid& grid);

}  // namespace ibcoll::topology
