#include "engine/planner/contention_free/max_flow.h"

#include <algorithm>
#include <cmath>

namespace ibcoll::contention_free {

int MaxFlow::add_arc(int from, int to) {
  arcs_.push_back({to, first_[from], 0});
  first_[from] = static_cast<int>(arcs_.size()) - 1;
  arcs_.push_back({from, first_[to], 0});
  first_[to] = static_cast<int>(arcs_.size()) - 1;
  capacity_.push_back(0);
  return static_cast<int>(capacity_.size()) - 1;
}

bool MaxFlow::find_levels(int source, int sink) {
  std::fill(level_.begin(), level_.end(), kNone);
  level_[source] = 0;
  queue_.assign(1, source);
  for (size_t at = 0; at < queue_.size(); ++at) {
    for (int a = first_[queue_[at]]; a != kNone; a = arcs_[a].next) {
      if (arcs_[a].left <= least_ || level_[arcs_[a].to] >= 0) continue;
      level_[arcs_[a].to] = level_[queue_[at]] + 1;
      if (arcs_[a].to == sink) return true;
      queue_.push_back(arcs_[a].to);
    }
  }
  return false;
}

double MaxFlow::push(int node, int sink, double most) {
  if (node == sink) return most;
  double pushed = 0;
  for (int& a = next_[node]; a != kNone; a = arcs_[a].next) {
    Arc& arc = arcs_[a];
    if (arc.left > least_ && level_[arc.to] == level_[node] + 1) {
      const double went = push(arc.to, sink, std::min(most - pushed, arc.left));
      arc.left -= went;
      arcs_[a ^ 1].left += went;
      pushed += went;
      if (most - pushed <= least_) return pushed;  // the arc may have something left
    }
  }
  return pushed;
}

double MaxFlow::run(int source, int sink, double enough) {
  constexpr double kPrecision = 1e-11;
  double largest = 0;
  for (size_t i = 0; i < capacity_.size(); ++i) {
    arcs_[2 * i].left = capacity_[i];
    arcs_[2 * i + 1].left = 0;
    largest = std::max(largest, capacity_[i]);
  }
  least_ = kPrecision * largest;
  double flow = 0;
  while (enough - flow > least_ && find_levels(source, sink)) {
    next_ = first_;
    flow += push(source, sink, enough - flow);
  }
  return flow;
}

}  // namespace ibcoll::contention_free
