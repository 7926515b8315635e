#include "studies/mapping/starts.h"

#include <algorithm>
#include <numeric>

namespace ibcoll::topology {
namespace {

/// The group of each task: groups of `size`, each begun by the task of most traffic that is left
/// and filled with those that talk most to it.
std::vector<int> pack(const CommMatrix& matrix, int size) {
  std::vector<double> traffic(matrix.tasks(), 0), pull(matrix.tasks(), 0);
  for (int task = 0; task < matrix.tasks(); ++task) {
    for (const CommMatrix::Edge& edge : matrix.both(task)) traffic[task] += edge.bytes;
  }
  std::vector<int> order(matrix.tasks()), group(matrix.tasks(), -1);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return traffic[a] > traffic[b]; });
  int groups = 0;
  size_t next = 0;
  for (int left = matrix.tasks(); left > 0;) {
    std::vector<int> pulled;
    for (int member = 0; member < size && left > 0; ++member, --left) {
      int best = -1;
      for (const int task : pulled) {
        if (group[task] < 0 && (best < 0 || pull[task] > pull[best])) best = task;
      }
      if (best < 0) {
        while (group[order[next]] >= 0) ++next;
        best = order[next];
      }
      group[best] = groups;
      for (const CommMatrix::Edge& edge : matrix.both(best)) {
        if (group[edge.task] >= 0) continue;
        if (pull[edge.task] == 0) pulled.push_back(edge.task);
        pull[edge.task] += edge.bytes;
      }
    }
    for (const int task : pulled) pull[task] = 0;
    ++groups;
  }
  return group;
}

}  // namespace

Placement in_order(int tasks, const Network& network, const Room& room) {
  Placement placement;
  for (int node = 0; node < node_count(network); ++node) {
    if (!room.allows(node)) continue;
    for (int i = 0; i < room.per_node && static_cast<int>(placement.size()) < tasks; ++i) {
      placement.push_back(node);
    }
  }
  return placement;
}

Result<Placement> mopt_in_room(const CommMatrix& matrix, const Network& network, const Room& room,
                               JoinRule rule) {
  IBCOLL_TRY(check_room(room, network, matrix.tasks()));
  const Grid* grid = std::get_if<Grid>(&network);
  if (grid == nullptr) {
    return fail(ErrorCode::kUnsupported, "MOPT places on meshes and tori, not on {}",
                network_name(network));
  }
  std::vector<int> group(matrix.tasks());
  std::iota(group.begin(), group.end(), 0);
  if (room.per_node > 1) group = pack(matrix, room.per_node);
  const int groups = 1 + *std::max_element(group.begin(), group.end());
  std::vector<Flow> flows = matrix.flows();
  std::vector<double> traffic(groups, 0);
  for (Flow& flow : flows) {
    flow.from = group[flow.from];
    flow.to = group[flow.to];
    traffic[flow.from] += flow.bytes;
    traffic[flow.to] += flow.bytes;
  }
  IBCOLL_ASSIGN(const CommMatrix grouped, CommMatrix::from_flows(groups, std::move(flows)));
  IBCOLL_ASSIGN(std::vector<int> node_of_group, mopt(grouped, *grid, rule));

  std::vector<char> taken(grid->nodes(), 0);
  std::vector<int> homeless;
  for (int g = 0; g < groups; ++g) {
    if (room.allows(node_of_group[g])) {
      taken[node_of_group[g]] = 1;
    } else {
      homeless.push_back(g);
    }
  }
  std::stable_sort(homeless.begin(), homeless.end(),
                   [&](int a, int b) { return traffic[a] > traffic[b]; });
  for (const int g : homeless) {
    int best = -1;
    for (int node = 0; node < grid->nodes(); ++node) {
      if (taken[node] || !room.allows(node)) continue;
      if (best < 0 ||
          grid->distance(node_of_group[g], node) < grid->distance(node_of_group[g], best)) {
        best = node;
      }
    }
    node_of_group[g] = best;
    taken[best] = 1;
  }
  Placement placement;
  for (const int g : group) placement.push_back(node_of_group[g]);
  return placement;
}

}  // namespace ibcoll::topology
