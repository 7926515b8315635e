#include "engine/planner/contention_free/neighbours.h"

namespace ibcoll::contention_free {
namespace {

/// Neighbours a server: with more, what goes from neighbour to neighbour is no help.
constexpr size_t kMostNeighbours = 32;

class Neighbours {
 public:
  explicit Neighbours(const Problem& problem)
      : problem_(problem),
        fabric_(problem.fabric),
        server_at_(fabric_.nodes(), -1),
        seen_(fabric_.nodes(), -1),
        passes_switches_(problem.inputs.collective != Collective::kBcast) {}

  std::vector<std::pair<int, int>> find() {
    for (int s = 0; s < problem_.servers; ++s) {
      int& there = server_at_[problem_.leaf(s)];
      if (there >= 0) return {};
      there = s;
    }
    // A sum goes the way back.
    const bool both_ways = !same_for_all(problem_.inputs.collective);
    std::vector<std::pair<int, int>> pairs;
    for (int s = 0; s < problem_.servers; ++s) {
      for (const int other : around(s)) {
        if (straight(s, other) && (!both_ways || straight(other, s))) pairs.emplace_back(s, other);
      }
      if (pairs.size() > kMostNeighbours * static_cast<size_t>(problem_.servers)) return {};
    }
    return pairs;
  }

 private:
  /// The servers that are reached over switches without servers.
  std::vector<int> around(int server) {
    std::vector<int> found, open = {problem_.leaf(server)};
    seen_[open[0]] = server;
    for (size_t at = 0; at < open.size(); ++at) {
      for (int port = 1; port <= fabric_.ports(open[at]); ++port) {
        const int link = fabric_.link_at(open[at], port);
        const int node = link < 0 ? -1 : fabric_.link(link).to;
        if (node < 0 || fabric_.is_host(node) || seen_[node] == server) continue;
        seen_[node] = server;
        if (server_at_[node] >= 0) {
          found.push_back(server_at_[node]);
        } else if (passes_switches_) {
          open.push_back(node);
        }
      }
    }
    return found;
  }

  /// Whether the route passes no other server's switch.
  bool straight(int from, int to) const {
    const int last = problem_.leaf(to);
    for (int node = problem_.leaf(from); node != last;) {
      node = fabric_.link(fabric_.next_link(node, problem_.hosts[to])).to;
      if (server_at_[node] >= 0 && node != last) return false;
    }
    return true;
  }

  const Problem& problem_;
  const topology::Fabric& fabric_;
  std::vector<int> server_at_;  ///< by switch
  std::vector<int> seen_;       ///< by switch: the last server from which it was reached
  const bool passes_switches_;  ///< trees of a broadcast know no links that several arcs share
};

}  // namespace

std::vector<std::pair<int, int>> neighbours(const Problem& problem) {
  return Neighbours(problem).find();
}

}  // namespace ibcoll::contention_free
