#include "studies/mapping/bounds.h"

#include <algorithm>
#include <set>
#include <type_traits>

namespace ibcoll::topology {
namespace {

/// How many nodes there are at each distance from the node that has the most near it.
std::vector<int> crowd(const Grid& grid) {
  // A mesh's distances are never below those with closed rings, where all nodes are alike.
  std::vector<int> at(1, 1);
  for (const int side : grid.sides()) {
    std::vector<int> wider(at.size() + side / 2, 0);
    for (int x = 0; x < side; ++x) {
      const int hops = std::min(x, side - x);
      for (size_t i = 0; i < at.size(); ++i) wider[i + hops] += at[i];
    }
    at = std::move(wider);
  }
  return at;
}
std::vector<int> crowd(const RoutedNetwork& network) {
  std::vector<int> most_within, within;
  for (int node = 0; node < network.nodes(); ++node) {
    within.clear();
    for (int other = 0; other < network.nodes(); ++other) {
      const size_t hops = std::min(network.distance(node, other), network.distance(other, node));
      if (within.size() <= hops) within.resize(hops + 1, 0);
      ++within[hops];
    }
    for (size_t i = 1; i < within.size(); ++i) within[i] += within[i - 1];
    if (most_within.empty()) most_within = within;
    // Beyond their farthest node all are within reach.
    const size_t size = std::max(within.size(), most_within.size());
    within.resize(size, network.nodes());
    most_within.resize(size, network.nodes());
    for (size_t i = 0; i < size; ++i) most_within[i] = std::max(most_within[i], within[i]);
  }
  for (size_t i = most_within.size(); i-- > 1;) most_within[i] -= most_within[i - 1];
  return most_within;
}

std::vector<int> crowd(const Hierarchy& hierarchy) {
  std::vector<int> at(1 + hierarchy.distance_at(hierarchy.levels() - 1));
  at[0] = 1;
  for (int level = 0; level < hierarchy.levels(); ++level)
    at[hierarchy.distance_at(level)] += hierarchy.span(level + 1) - hierarchy.span(level);
  return at;
}

/// The distance of each further place from a task's own, nearest first.
std::vector<int> nearest_places(const std::vector<int>& crowd, int per_node, size_t count) {
  std::vector<int> distance;
  for (size_t hops = 0; hops < crowd.size() && distance.size() < count; ++hops) {
    size_t places = static_cast<size_t>(crowd[hops]) * per_node;
    if (hops == 0) --places;
    distance.insert(distance.end(), std::min(places, count - distance.size()),
                    static_cast<int>(hops));
  }
  return distance;
}

double hop_bound(const CommMatrix& matrix, const std::vector<int>& distance) {
  double sum = 0;
  std::vector<double> weights;
  for (int task = 0; task < matrix.tasks(); ++task) {
    weights.clear();
    for (const CommMatrix::Edge& edge : matrix.both(task)) weights.push_back(edge.bytes);
    std::sort(weights.rbegin(), weights.rend());
    for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * distance[i];
  }
  return sum / 2;  // both ends count a pair
}

/// How many links lead from and to a node that tasks may use, and how fast they are together, in
/// links of the fastest rate: the most of any node.
template <class Paths>
double widest_node(const Paths& paths, const Room& room) {
  if constexpr (std::is_same_v<Paths, Grid>) {
    int links = 0;
    for (const int side : paths.sides()) links += side == 1 ? 0 : side == 2 ? 1 : 2;
    return links;
  } else if constexpr (std::is_same_v<Paths, Hierarchy>) {
    return 1;
  } else {
    double widest = 0;
    for (int node = 0; node < paths.nodes(); ++node) {
      if (!room.allows(node)) continue;
      std::set<int> first;
      for (int other = 0; other < paths.nodes(); ++other) {
        bool seen = false;
        paths.route(node, other, [&](int link) {
          if (!seen) first.insert(link);
          seen = true;
        });
      }
      double width = 0;
      for (const int link : first) width += 1 / paths.slowness(link);
      widest = std::max(widest, width);
    }
    return widest;
  }
}

template <class Paths>
Bounds bounds_on(const CommMatrix& matrix, const Paths& paths, const Room& room) {
  Bounds bounds;
  size_t partners = 0;
  for (int task = 0; task < matrix.tasks(); ++task)
    partners = std::max(partners, matrix.both(task).size());
  bounds.hop_bytes = hop_bound(matrix, nearest_places(crowd(paths), room.per_node, partners));
  double links = 0;
  if constexpr (std::is_same_v<Paths, Grid>) {
    links = paths.usable_links();
  } else if constexpr (std::is_same_v<Paths, RoutedNetwork>) {
    for (int link = 0; link < paths.links(); ++link) links += 1 / paths.slowness(link);
  }
  if (links > 0) bounds.max_link_load = bounds.hop_bytes / links;
  if (room.per_node > 1) return bounds;
  bounds.max_link_load = std::max(bounds.max_link_load, matrix.largest());
  const double width = widest_node(paths, room);
  for (int task = 0; task < matrix.tasks() && width > 0; ++task) {
    double out = 0, in = 0;
    for (const CommMatrix::Edge& edge : matrix.out(task)) out += edge.bytes;
    for (const CommMatrix::Edge& edge : matrix.in(task)) in += edge.bytes;
    bounds.max_link_load = std::max(bounds.max_link_load, std::max(out, in) / width);
  }
  return bounds;
}

}  // namespace

Bounds lower_bounds(const CommMatrix& matrix, const Network& network, const Room& room) {
  if (matrix.tasks() == 0) return {};
  return std::visit([&](const auto& paths) { return bounds_on(matrix, paths, room); }, network);
}

}  // namespace ibcoll::topology
