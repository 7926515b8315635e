#pragma once
/// The inner loops of the tabu search, in the widest vectors that the processor has.

#include <cstddef>
#include <vector>

namespace ibcoll::topology {

/// Tables over pairs of tasks, `stride` entries a row. The stride is a multiple of kTabuLanes.
inline constexpr int kTabuLanes = 8;

/// What the exchange of two tasks changes in the tables of a TabuSearch.
struct OuterProducts {
  int rows, stride;
  /// For each task and the two: its flow with the first less its flow with the second, and its
  /// distance from the second less its distance from the first. Zero beyond the tasks.
  const float *flow_gap, *distance_gap;
};

/// products[u][v] += flow_gap[u] * distance_gap[v]; where u < v:
/// changes[u][v] -= (flow_gap[u] - flow_gap[v]) * (distance_gap[u] - distance_gap[v]).
/// Entries of `changes` elsewhere have to be infinite, and remain so.
void add_outer_products(const OuterProducts& of, float* products, float* changes);

/// Where least_change() looks.
struct ChangesToSearch {
  int rows, stride;
  const float* changes;        ///< infinite where there is no pair u < v
  const int* forbidden_until;  ///< a pair may not be chosen before
  int now;
  float always_below;  ///< what changes less than this may be chosen at any time
};

struct FoundChange {
  int u = -1, v = -1;  ///< -1: all are forbidden
};

/// The pair u < v of the least change that may be chosen.
FoundChange least_change(const ChangesToSearch& in);

}  // namespace ibcoll::topology
