#pragma once
/// The most that can flow through a network at once, and the cut that lets no more through.

#include <cmath>
#include <cstdint>
#include <vector>

namespace ibcoll::contention_free {

/// Dinic's algorithm (1970), on real capacities: a flow is right to about 1e-9 of the largest
/// capacity. Arcs stay; their capacities may be set anew for the next flow.
class MaxFlow {
 public:
  explicit MaxFlow(int nodes) : first_(nodes, kNone), level_(nodes), next_(nodes) {}

  /// Adds an arc of capacity 0; returns its number.
  int add_arc(int from, int to);
  void set_capacity(int arc, double capacity) { capacity_[arc] = capacity; }

  /// The most that flows from `source` to `sink`, or `enough` if that is less: then it stops there.
  double run(int source, int sink, double enough = INFINITY);
  /// After run() to the end: whether a node lies on the source's side of a cut that is full.
  bool on_source_side(int node) const { return level_[node] >= 0; }

 private:
  static constexpr int kNone = -1;
  struct Arc {
    int to;
    int next;  ///< of the same node
    double left;
  };

  bool find_levels(int source, int sink);
  double push(int node, int sink, double most);

  std::vector<Arc> arcs_;         ///< an arc, then the one back
  std::vector<double> capacity_;  ///< by number
  std::vector<int> first_, level_, next_, queue_;
  double least_ = 0;  ///< what is less is nothing
};

}  // namespace ibcoll::contention_free
