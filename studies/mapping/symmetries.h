#pragma once
/// Placements that differ only by a turn, a reflection or a shift of the network.

#include <vector>

#include "studies/mapping/evaluate.h"

namespace ibcoll::topology {

/// The ways to map a grid onto itself that keep all distances. Of other networks, and where some
/// nodes may not be used, only the identity is known.
class Symmetries {
 public:
  /// `mesh_hops`: the distances are those without a torus's wraparound links.
  Symmetries(const Network& network, const Room& room, bool mesh_hops);

  /// The image of `placement` that puts the most tasks where `model` has them.
  /// Time O(tasks) for each way to turn and reflect the network.
  Placement aligned(const Placement& placement, const Placement& model) const;

 private:
  /// Coordinate d of the image is the `from[d]`th coordinate, counted from the end if `flip[d]`.
  struct Turn {
    std::vector<int> from;
    std::vector<char> flip;
  };

  void add_turns();
  int image(const Turn& turn, int node) const;
  int shifted(int node, int by) const;
  int shift_between(int from, int to) const;

  const Grid* grid_ = nullptr;
  bool shifts_ = false;  ///< whether rings may be shifted
  std::vector<Turn> turns_;
};

}  // namespace ibcoll::topology
