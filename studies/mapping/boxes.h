#pragma once
/// Moves of whole boxes of nodes, which exchanges of single tasks would need many steps uphill for.

#include <vector>

#include "studies/mapping/grid.h"
#include "studies/mapping/random.h"

namespace ibcoll::topology {

/// Chooses boxes of nodes of a grid and where a move takes their nodes.
class Boxes {
 public:
  Boxes() = default;
  explicit Boxes(const Grid& grid) : grid_(&grid) {}

  /// Draws a move: a box turned over in place, or two boxes that change places, each turned over at
  /// random. False where the draw gives boxes that overlap or nothing to move.
  bool choose(FastRandom& random);
  /// The move last drawn was worth while: boxes of its shape are drawn more often.
  void praise();
  const std::vector<int>& first() const { return first_; }
  const std::vector<int>& first_goes_to() const { return first_to_; }
  /// Empty for a move in place.
  const std::vector<int>& second() const { return second_; }
  const std::vector<int>& second_goes_to() const { return second_to_; }

 private:
  bool draw_sides(FastRandom& random);
  std::vector<int> draw_corner(bool aligned, FastRandom& random) const;
  void draw_mirrors(FastRandom& random);
  void list(const std::vector<int>& corner, const std::vector<int>& mirrors,
            std::vector<int>& nodes) const;

  const Grid* grid_ = nullptr;
  std::vector<int> sides_, mirrors_;
  std::vector<std::vector<int>> praised_;  ///< the latest shapes
  size_t next_praised_ = 0;
  std::vector<int> first_, first_to_, second_, second_to_;
};

}  // namespace ibcoll::topology
