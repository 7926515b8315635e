#pragma once
/// Meshes and tori of any number of dimensions and any sides, with dimension-order routes.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll::topology {

/// A mesh or torus. Node n has coordinate x = n mod X, y = n / X mod Y and so on: dimension 0 runs
/// fastest ("XYZ order"). A route corrects dimension 0 first; on a torus it takes the shorter way
/// round, and at exactly half the ring the way that does not wrap. Links are directed: from each
/// node one up and one down in each dimension.
class Grid {
 public:
  static constexpr int kMaxDimensions = 6;
  static constexpr int kMaxNodes = 1 << 20;

  /// `sides[d]` nodes in dimension d; `torus` closes every dimension to a ring. Refuses a side
  /// below 1, more than kMaxDimensions sides and more than kMaxNodes nodes.
  static Result<Grid> create(std::vector<int> sides, bool torus);
  /// Reads "torus:16x16x16" or "mesh:5x7".
  static Result<Grid> parse(std::string_view text);

  int nodes() const { return nodes_; }
  int dimensions() const { return static_cast<int>(sides_.size()); }
  int side(int dimension) const { return sides_[dimension]; }
  const std::vector<int>& sides() const { return sides_; }
  bool torus() const { return torus_; }
  /// "torus:16x16x16".
  std::string name() const;

  int coordinate(int node, int dimension) const {
    return coordinates_[static_cast<size_t>(node) * sides_.size() + dimension];
  }
  int node_at(const std::vector<int>& coordinates) const;
  /// Hops of the route from a to b (with the wraparound links, if there are any).
  int distance(int a, int b) const {
    int hops = 0;
    for (int d = 0; d < dimensions(); ++d) {
      hops += std::abs(steps(d, coordinate(a, d), coordinate(b, d)));
    }
    return hops;
  }
  /// Hops as if there were no wraparound links.
  int mesh_distance(int a, int b) const {
    int hops = 0;
    for (int d = 0; d < dimensions(); ++d) hops += std::abs(coordinate(b, d) - coordinate(a, d));
    return hops;
  }

  /// Number of link names: two a node and dimension. At a mesh's border some of them don't exist.
  int links() const { return nodes_ * dimensions() * 2; }
  int link(int node, int dimension, bool up) const {
    return (node * dimensions() + dimension) * 2 + (up ? 0 : 1);
  }
  /// Links that a route can use: those of a mesh's border and of sides of one node are not.
  int usable_links() const;

  /// Calls `visit(link)` for every link of the route from a to b.
  template <class Visit>
  void route(int a, int b, Visit&& visit) const {
    int node = a;
    for (int d = 0; d < dimensions(); ++d) {
      int x = coordinate(a, d);
      const int hops = steps(d, x, coordinate(b, d));
      const int stride = strides_[d], side = sides_[d];
      for (int i = 0; i < hops; ++i) {
        visit(link(node, d, true));
        if (++x == side) {
          x = 0;
          node -= stride * (side - 1);
        } else {
          node += stride;
        }
      }
      for (int i = 0; i > hops; --i) {
        visit(link(node, d, false));
        if (--x < 0) {
          x = side - 1;
          node += stride * (side - 1);
        } else {
          node -= stride;
        }
      }
    }
  }

 private:
  /// Signed hops from coordinate x to y in dimension d.
  int steps(int d, int x, int y) const { return steps_[zero_[d] + y - x]; }

  std::vector<int> sides_, strides_;
  bool torus_ = false;
  int nodes_ = 0;
  std::vector<int> coordinates_;  ///< node * dimensions + dimension
  std::vector<int> steps_;  ///< signed hops by coordinate difference, one dimension after another
  std::vector<int> zero_;   ///< where in steps_ a dimension's difference of 0 stands
};

}  // namespace ibcoll::topology
