#include "engine/planner/contention_free/disjoint_trees.h"

#include <algorithm>
#include <cmath>

#include "engine/planner/contention_free/max_flow.h"

namespace ibcoll::contention_free {

std::vector<DisjointTree> disjoint_trees(int nodes, const std::vector<TreeArc>& arcs, int root,
                                         int most) {
  MaxFlow flow(nodes);
  std::vector<int> left;
  std::vector<std::vector<uint32_t>> from(nodes);
  for (uint32_t a = 0; a < arcs.size(); ++a) {
    from[arcs[a].from].push_back(a);
    left.push_back(arcs[a].trees);
    flow.set_capacity(flow.add_arc(arcs[a].from, arcs[a].to), left[a]);
  }
  const auto ways = [&](int node) { return static_cast<int>(std::lround(flow.run(root, node))); };
  int count = most;
  for (int node = 0; node < nodes; ++node) {
    if (node != root) count = std::min(count, ways(node));
  }
  std::vector<DisjointTree> trees(count);
  for (int t = 0; t < count; ++t) {
    const int others = count - t - 1;
    std::vector<char> in(nodes, 0);
    std::vector<int> open = {root};
    in[root] = 1;
    for (size_t at = 0; at < open.size(); ++at) {
      for (const uint32_t a : from[open[at]]) {
        const int node = arcs[a].to;
        if (in[node] || left[a] == 0) continue;
        flow.set_capacity(static_cast<int>(a), left[a] - 1);
        // Only sets of nodes with this one lose a way in.
        if (others > 0 && ways(node) < others) {
          flow.set_capacity(static_cast<int>(a), left[a]);
          continue;
        }
        --left[a];
        in[node] = 1;
        open.push_back(node);
        trees[t].push_back(a);
      }
    }
  }
  return trees;
}

}  // namespace ibcoll::contention_free
