#include "engine/planner/contention_free/disjoint_trees.h"

#include <algorithm>
#include <cmath>

#include "engine/planner/contention_free/max_flow.h"

namespace ibcoll::contention_free {

namespace {

/// What arcs and ports have left for more trees, and how many ways that leaves.
class Rest {
 public:
  Rest(const TreeNetwork& network, int root, size_t effort)
      : arcs_(network.arcs),
        ports_(network.ports),
        into_(network.nodes),
        from_root_(network.nodes, 0),
        root_(root),
        effort_(effort),
        flow_(ports_.empty() ? network.nodes : 2 * network.nodes) {
    // What leaves a node with a port comes from a node of its own, behind an arc as wide as the
    // port.
    const int behind = ports_.empty() ? 0 : network.nodes;
    for (const TreeArc& arc : arcs_) {
      into_[arc.to].push_back(static_cast<uint32_t>(left_.size()));
      if (arc.from == root_) from_root_[arc.to] = arc.trees;
      left_.push_back(arc.trees);
      flow_.set_capacity(flow_.add_arc(arc.from + behind, arc.to), arc.trees);
    }
    for (int node = 0; node < static_cast<int>(ports_.size()); ++node) {
      flow_.set_capacity(flow_.add_arc(node, node + behind), ports_[node]);
    }
  }

  int left(uint32_t arc) const { return left_[arc]; }
  /// Of the port of a node, for each of so many trees.
  int share(int node, int trees) const {
    return ports_.empty() ? INT32_MAX : (ports_[node] + trees - 1) / trees;
  }
  void take(uint32_t arc, int trees) {
    left_[arc] -= trees;
    flow_.set_capacity(static_cast<int>(arc), left_[arc]);
    if (arcs_[arc].from == root_) from_root_[arcs_[arc].to] -= trees;
    if (ports_.empty()) return;
    int& port = ports_[arcs_[arc].from];
    port -= trees;
    flow_.set_capacity(static_cast<int>(arcs_.size()) + arcs_[arc].from, port);
  }
  /// Disjoint ways to a node, no more than `enough`. 0 when too much has been looked at.
  int ways(int node, int enough) {
    if (short_ways(node, enough) >= enough) return enough;
    if (effort_ < arcs_.size()) {
      effort_ = 0;
      return 0;
    }
    effort_ -= arcs_.size();
    return static_cast<int>(std::lround(flow_.run(root_, node, enough)));
  }
  /// How many more arcs may be looked at.
  size_t effort() const { return effort_; }

 private:
  /// Those of one arc or two: on dense networks nearly always enough, and soon counted.
  int short_ways(int node, int enough) const {
    int64_t found = 0;
    for (const uint32_t arc : into_[node]) {
      const int by = arcs_[arc].from;
      int carries = left_[arc];
      if (by != root_) {
        carries = std::min(carries, from_root_[by]);
        if (!ports_.empty()) carries = std::min(carries, ports_[by]);
      }
      found += carries;
    }
    if (!ports_.empty()) found = std::min<int64_t>(found, ports_[root_]);
    return static_cast<int>(std::min<int64_t>(found, enough));
  }

  const std::vector<TreeArc>& arcs_;
  std::vector<int> ports_, left_;
  std::vector<std::vector<uint32_t>> into_;  ///< arcs by node
  std::vector<int> from_root_;               ///< by node: left of the arc from the root
  const int root_;
  size_t effort_;
  MaxFlow flow_;
};

}  // namespace

std::vector<DisjointTree> disjoint_trees(const TreeNetwork& network, int root, int& count,
                                         size_t& effort) {
  Rest rest(network, root, effort);
  std::vector<std::vector<uint32_t>> from(network.nodes);
  for (uint32_t a = 0; a < network.arcs.size(); ++a) from[network.arcs[a].from].push_back(a);
  int fewest = count;
  for (int node = 0; node < network.nodes && fewest > 1; ++node) {
    if (node != root) fewest = std::min(fewest, rest.ways(node, fewest));
  }
  effort = rest.effort();
  if (effort == 0) return {};
  count = fewest;
  std::vector<DisjointTree> trees(count);
  for (int t = 0; t < count; ++t) {
    const int others = count - t - 1;
    std::vector<char> in(network.nodes, 0);
    std::vector<int> open = {root};
    in[root] = 1;
    for (size_t at = 0; at < open.size(); ++at) {
      int share = rest.share(open[at], count - t);
      for (const uint32_t a : from[open[at]]) {
        const int node = network.arcs[a].to;
        if (share == 0) break;
        if (in[node] || rest.left(a) == 0) continue;
        rest.take(a, 1);
        // Only sets of nodes with this one lose a way in over the arc.
        if (others > 0 && rest.ways(node, others) < others) {
          rest.take(a, -1);
          continue;
        }
        --share;
        in[node] = 1;
        open.push_back(node);
        trees[t].push_back(a);
      }
    }
    effort = rest.effort();
    if (static_cast<int>(open.size()) < network.nodes) return {};
  }
  return trees;
}

}  // namespace ibcoll::contention_free
