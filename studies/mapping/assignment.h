#pragma once
/// Placement for hop-bytes as a quadratic assignment problem: every flow and every distance in a
/// table, for searches that look at all exchanges of two tasks at once.

#include <optional>
#include <vector>

#include "studies/mapping/anneal.h"

namespace ibcoll::topology {

/// Tasks are to be assigned to slots, one each. A slot is the place of one task on a node; idle
/// tasks, which send nothing, fill the slots that are left.
struct Assignment {
  int tasks = 0;   ///< without the idle ones, which have the highest numbers
  int slots = 0;   ///< as many as there are tasks with the idle ones
  int stride = 0;  ///< from one row of a table to the next: a multiple of kTabuLanes
  /// Bytes between two tasks, both directions together: [task * stride + task]. Symmetric, with
  /// zeros in the diagonal and beyond the slots, as is `distance`.
  std::vector<float> flow;
  std::vector<float> distance;  ///< hops between two slots
  std::vector<int> node_of_slot;
  /// Whether all sums of flow x distance that a search forms are exact in single precision.
  bool exact = false;

  /// None if hops and flows both differ between the two directions, which the searches here do not
  /// provide for, or if there are more than `most_slots` slots or no two tasks.
  static std::optional<Assignment> of(const CommMatrix& matrix, const Network& network,
                                      const Room& room, const Goal& goal, int most_slots);

  float flow_between(int a, int b) const { return flow[static_cast<size_t>(a) * stride + b]; }
  float distance_between(int a, int b) const {
    return distance[static_cast<size_t>(a) * stride + b];
  }
  /// The hop-bytes of an assignment, in the unit of `flow`. `slot_of` has an entry for each task,
  /// idle ones included.
  double value(const std::vector<int>& slot_of) const;
  /// The slots of a placement's tasks, and of the idle tasks in order.
  std::vector<int> slots_of(const Placement& placement) const;
  Placement placement(const std::vector<int>& slot_of) const;
};

}  // namespace ibcoll::topology
