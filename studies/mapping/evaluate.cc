#include "studies/mapping/evaluate.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace ibcoll::topology {
namespace {

/// Walks a message over a grid one hop at a time; deliberately not Grid::route, so that one checks
/// the other. Links are numbered [node][dimension][up, down].
class GridWalk {
 public:
  explicit GridWalk(const Grid& grid)
      : grid_(grid), bytes_(static_cast<size_t>(grid.nodes()) * grid.dimensions() * 2) {}

  void send(int from, int to, double bytes, Evaluation& evaluation) {
    Coordinates at = coordinates(from);
    const Coordinates end = coordinates(to);
    for (size_t d = 0; d < sides_; ++d) {
      const int side = grid_.sides()[d];
      const int up = (end[d] - at[d] + side) % side, down = (at[d] - end[d] + side) % side;
      evaluation.hop_bytes_mesh += bytes * std::abs(end[d] - at[d]);
      bool go_up = end[d] > at[d];
      if (grid_.torus() && up != down) go_up = up < down;
      while (at[d] != end[d]) {
        bytes_[(index(at) * sides_ + d) * 2 + (go_up ? 0 : 1)] += bytes;
        at[d] = (at[d] + (go_up ? 1 : side - 1)) % side;
        evaluation.hop_bytes += bytes;
      }
    }
  }
  /// The loads of the links that exist, idle ones included.
  std::vector<double> loads() const {
    std::vector<double> loads;
    for (int node = 0; node < grid_.nodes(); ++node) {
      const Coordinates at = coordinates(node);
      for (size_t d = 0; d < sides_; ++d) {
        const int side = grid_.sides()[d];
        const bool ring = grid_.torus() && side > 2;
        const size_t link = (static_cast<size_t>(node) * sides_ + d) * 2;
        if (ring || at[d] + 1 < side) loads.push_back(bytes_[link]);
        if (ring || at[d] > 0) loads.push_back(bytes_[link + 1]);
      }
    }
    return loads;
  }

 private:
  using Coordinates = std::array<int, Grid::kMaxDimensions>;

  Coordinates coordinates(int node) const {
    Coordinates at{};
    for (size_t d = 0; d < sides_; ++d) {
      at[d] = node % grid_.sides()[d];
      node /= grid_.sides()[d];
    }
    return at;
  }
  size_t index(const Coordinates& at) const {
    size_t node = 0;
    for (size_t d = sides_; d-- > 0;) node = node * grid_.sides()[d] + at[d];
    return node;
  }

  const Grid& grid_;
  size_t sides_ = grid_.sides().size();
  std::vector<double> bytes_;
};

/// The same for hierarchies, not with Hierarchy::route either.
class HierarchyWalk {
 public:
  explicit HierarchyWalk(const Hierarchy& hierarchy) : hierarchy_(hierarchy) {
    int groups = hierarchy.nodes();
    for (int level = 0; level < hierarchy.levels(); ++level) {
      out_.emplace_back(groups);
      in_.emplace_back(groups);
      groups /= hierarchy.members(level);
    }
  }

  void send(int from, int to, double bytes, Evaluation& evaluation) {
    int distance = 0;
    for (int level = 0; from != to; ++level) {
      out_[level][from] += bytes;
      in_[level][to] += bytes;
      distance = hierarchy_.distance_at(level);
      from /= hierarchy_.members(level);
      to /= hierarchy_.members(level);
    }
    evaluation.hop_bytes += bytes * distance;
  }
  std::vector<double> loads() const {
    std::vector<double> loads;
    for (const auto* links : {&out_, &in_}) {
      for (const std::vector<double>& level : *links)
        loads.insert(loads.end(), level.begin(), level.end());
    }
    return loads;
  }

 private:
  const Hierarchy& hierarchy_;
  std::vector<std::vector<double>> out_, in_;  ///< of each level's groups
};

}  // namespace

Status check_room(const Room& room, const Network& network, int tasks) {
  const int nodes = node_count(network);
  if (room.per_node < 1 || room.per_node > CommMatrix::kMaxTasks) {
    return fail(ErrorCode::kInvalidArgument, "{} tasks a node: 1 to {}", room.per_node,
                CommMatrix::kMaxTasks);
  }
  if (!room.usable.empty() && room.usable.size() != static_cast<size_t>(nodes)) {
    return fail(ErrorCode::kInvalidArgument, "{} flags of usable nodes for {} nodes",
                room.usable.size(), nodes);
  }
  int64_t usable = nodes;
  if (!room.usable.empty())
    usable = std::count_if(room.usable.begin(), room.usable.end(), [](char c) { return c != 0; });
  if (tasks > usable * room.per_node) {
    return fail(ErrorCode::kInvalidArgument, "{} tasks don't fit on {}: {} usable nodes, {} a node",
                tasks, network_name(network), usable, room.per_node);
  }
  return {};
}

Status check_placement(const Placement& placement, const Network& network, const Room& room,
                       int tasks) {
  if (placement.size() != static_cast<size_t>(tasks)) {
    return fail(ErrorCode::kInvalidArgument, "{} tasks placed of {}", placement.size(), tasks);
  }
  std::vector<int> count(node_count(network));
  for (size_t task = 0; task < placement.size(); ++task) {
    const int node = placement[task];
    if (node < 0 || node >= static_cast<int>(count.size()) || !room.allows(node)) {
      return fail(ErrorCode::kInvalidArgument, "task {} on node {}, which may not be used", task,
                  node);
    }
    if (++count[node] > room.per_node) {
      return fail(ErrorCode::kInvalidArgument, "task {} is number {} on node {}, which takes {}",
                  task, count[node], node, room.per_node);
    }
  }
  return {};
}

Evaluation evaluate(const CommMatrix& matrix, const Network& network, const Placement& placement) {
  Evaluation evaluation;
  const std::vector<Flow> flows = matrix.flows();
  const auto walk_all = [&](auto walk) {
    for (const Flow& flow : flows)
      walk.send(placement[flow.from], placement[flow.to], flow.bytes, evaluation);
    evaluation.link_loads = walk.loads();
  };
  double slowest = 1;  ///< how slow the link is that takes longest
  if (const Grid* grid = std::get_if<Grid>(&network)) {
    walk_all(GridWalk(*grid));
  } else if (const Hierarchy* hierarchy = std::get_if<Hierarchy>(&network)) {
    walk_all(HierarchyWalk(*hierarchy));
    evaluation.hop_bytes_mesh = evaluation.hop_bytes;
  } else {
    const RoutedNetwork& routed = std::get<RoutedNetwork>(network);
    evaluation.link_loads.resize(routed.links());
    for (const Flow& flow : flows) {
      routed.route(placement[flow.from], placement[flow.to], [&](int link) {
        evaluation.link_loads[link] += flow.bytes * routed.slowness(link);
        evaluation.hop_bytes += flow.bytes;
      });
    }
    evaluation.hop_bytes_mesh = evaluation.hop_bytes;
    const auto most = std::max_element(evaluation.link_loads.begin(), evaluation.link_loads.end());
    if (most != evaluation.link_loads.end())
      slowest = routed.slowness(static_cast<int>(most - evaluation.link_loads.begin()));
  }
  std::sort(evaluation.link_loads.begin(), evaluation.link_loads.end());
  if (!evaluation.link_loads.empty()) evaluation.max_link_load = evaluation.link_loads.back();
  evaluation.max_link_bytes = evaluation.max_link_load / slowest;
  return evaluation;
}

}  // namespace ibcoll::topology
