#pragma once
/// What MOPT joins: boxes side by side, each turned or reflected.

#include <array>
#include <vector>

#include "studies/mapping/grid.h"

namespace ibcoll::topology {

using Coordinates = std::array<int, Grid::kMaxDimensions>;
using Shape = Coordinates;  ///< sides of a box; unused dimensions are 1

/// A box and the two that it is joined from, side by side along `dimension`.
struct Join {
  Shape shape, first, second;
  int dimension = 0;
  int level = 0;   ///< joins needed on the longest way to a single node
  int wanted = 0;  ///< how many boxes of this shape the tree has
};

/// The joins that build `whole`, by ascending level.
std::vector<Join> plan_joins(const Shape& whole, int dimensions);

/// A turn or reflection that maps a box onto itself: coordinate d of the image is coordinate
/// axis[d] of the original, counted from the other end where mirrored[d].
struct Orientation {
  Coordinates axis{};
  std::array<bool, Grid::kMaxDimensions> mirrored{};

  Coordinates apply(const Coordinates& at, const Shape& shape) const {
    Coordinates image{};
    for (size_t d = 0; d < shape.size(); ++d) {
      image[d] = mirrored[d] ? shape[d] - 1 - at[axis[d]] : at[axis[d]];
    }
    return image;
  }
};

/// Every k-th orientation, so that at most `most` are left; the first one stays.
void thin_out(std::vector<Orientation>& turns, size_t most);

/// All orientations of a shape, the identity first. With `mirrored_only` not negative, reflections
/// in that dimension only.
std::vector<Orientation> orientations(const Shape& shape, int mirrored_only);

}  // namespace ibcoll::topology
