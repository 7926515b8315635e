#pragma once
/// What a placement costs, computed from scratch and apart from the code that searches for it.

#include <span>
#include <vector>

#include "engine/base/result.h"
#include "studies/mapping/matrix.h"
#include "studies/mapping/network.h"

namespace ibcoll::topology {

/// The node of each task.
using Placement = std::vector<int>;

/// The figures of one placement. Traffic inside a node costs nothing.
struct Evaluation {
  /// Sum over messages of bytes x hops of the route, or x distance in a hierarchy; on a torus with
  /// the wraparound links.
  double hop_bytes = 0;
  /// The same counted without the wraparound links of a torus; elsewhere equal to hop_bytes.
  double hop_bytes_mesh = 0;
  /// The load of the link that takes longest: as many bytes as take as long on the fastest link.
  double max_link_load = 0;
  double max_link_bytes = 0;  ///< that the same link carries
  /// The load of every link that a route can use, ascending.
  std::vector<double> link_loads;
};

/// Which nodes may be used, and how many tasks each takes.
struct Room {
  int per_node = 1;
  /// One flag a node; empty: all may be used.
  std::vector<char> usable;

  bool allows(int node) const { return usable.empty() || usable[node] != 0; }
};

/// Refuses rooms that don't fit the network or can't hold the tasks.
Status check_room(const Room& room, const Network& network, int tasks);

/// Refuses a placement with a task too few or too many, on an unknown or excluded node, or on a
/// node that is full.
Status check_placement(const Placement& placement, const Network& network, const Room& room,
                       int tasks);

/// The figures of a placement that check_placement lets pass.
Evaluation evaluate(const CommMatrix& matrix, const Network& network, const Placement& placement);

}  // namespace ibcoll::topology
