#pragma once
/// Placement by growing: tasks are placed one by one so that network distances fit the distances in
/// the communication graph. Finds the order behind scrambled stencils and meshes, where merging
/// pairs of equal weight can't.

#include "studies/mapping/evaluate.h"

namespace ibcoll::topology {

struct GrowOptions {
  /// Network hops a hop of the communication graph; 0: the ratio of the mean distances.
  double scale = 1;
  /// Fit a torus's distances without its wraparound links.
  bool mesh_hops = false;
  uint64_t seed = 1;
};

/// Starts with a task of much traffic and goes on with the one that talks most to those placed. Of
/// the free nodes near its partners it takes the one whose distances to some fifty reference tasks
/// fit best. Many short beginnings are tried; the one of the best fit is carried on. Only pairs
/// with at least a tenth of an end's heaviest traffic count for the graph's distances.
/// Time O(tasks * degree * references).
Placement grow(const CommMatrix& matrix, const Network& network, const Room& room,
               const GrowOptions& options);

}  // namespace ibcoll::topology
