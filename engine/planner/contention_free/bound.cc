#include "engine/planner/contention_free/bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "engine/planner/contention_free/cut_bound.h"
#include "engine/planner/contention_free/direct.h"
#include "engine/planner/contention_free/shipments.h"

namespace ibcoll::contention_free {

namespace {

/// Cuts are found in floating point.
constexpr double kRounding = 1e-9;

/// What passes a link at one distance from its sender (or to its receiver).
struct Distance {
  int64_t ns;
  double busy_ns;
  int64_t least_rest_ns;  ///< the shortest rest of the way
};

void add(std::vector<Distance>& distances, int64_t ns, double busy_ns, int64_t rest_ns) {
  for (size_t i = distances.size(); i-- > 0;) {
    if (distances[i].ns != ns) continue;
    distances[i].busy_ns += busy_ns;
    distances[i].least_rest_ns = std::min(distances[i].least_rest_ns, rest_ns);
    return;
  }
  distances.push_back({ns, busy_ns, rest_ns});
}

/// The largest, over all distances, of what comes from so far or further.
double longest(std::vector<Distance>& distances) {
  std::sort(distances.begin(), distances.end(),
            [](const Distance& a, const Distance& b) { return a.ns > b.ns; });
  double most = 0, busy = 0;
  int64_t rest = INT64_MAX;
  for (const Distance& distance : distances) {
    busy += distance.busy_ns;
    rest = std::min(rest, distance.least_rest_ns);
    most = std::max(most, static_cast<double>(distance.ns + rest) + busy);
  }
  return most;
}

/// Loads of links, by distance from senders and to receivers.
class Loads {
 public:
  explicit Loads(const topology::Fabric& fabric)
      : fabric_(fabric), before_(fabric.links()), after_(fabric.links()) {}

  void carry(const Hop& hop, const Path& path, uint64_t bytes) {
    const topology::Link& link = fabric_.link(hop.link);
    const double busy = static_cast<double>(bytes) * 1e9 / link.bandwidth;
    const int64_t rest = path.latency_ns - hop.before_ns;
    add(before_[hop.link], hop.before_ns, busy, rest);
    add(after_[hop.link], rest, busy, hop.before_ns);
  }
  int64_t bound_ns() {
    double most = 0;
    for (size_t link = 0; link < before_.size(); ++link) {
      most = std::max({most, longest(before_[link]), longest(after_[link])});
    }
    return static_cast<int64_t>(std::floor(most));
  }

 private:
  const topology::Fabric& fabric_;
  std::vector<std::vector<Distance>> before_, after_;
};

/// From one host to all others: how long a byte takes at least, and how fast bytes go at most, by
/// whatever cables. Cables are alike either way, so it is the same from all others to the one.
class ShortestWays {
 public:
  explicit ShortestWays(const topology::Fabric& fabric) : fabric_(fabric) {}

  void find(int host) {
    latency_ns_.assign(fabric_.nodes(), INT64_MAX);
    rate_.assign(fabric_.nodes(), 0);
    latency_ns_[host] = 0;
    walk<int64_t, std::greater<>>(host, latency_ns_, [&](int64_t so_far, const auto& link) {
      return so_far + link.latency_ns + fabric_.switch_latency_ns();
    });
    rate_[host] = INFINITY;
    walk<double, std::less<>>(host, rate_, [](double so_far, const topology::Link& link) {
      return std::min(so_far, link.bandwidth);
    });
  }
  int64_t latency_ns(int to) const { return latency_ns_[to] - fabric_.switch_latency_ns(); }
  double rate(int to) const { return rate_[to]; }

 private:
  /// Dijkstra's algorithm; `Worse` puts the best on top of a heap.
  template <class Value, class Worse, class Extend>
  void walk(int from, std::vector<Value>& best, Extend&& extend) const {
    using Reached = std::pair<Value, int>;
    const auto worse = [](const Reached& a, const Reached& b) { return Worse()(a.first, b.first); };
    std::priority_queue<Reached, std::vector<Reached>, decltype(worse)> heap(worse);
    heap.push({best[from], from});
    while (!heap.empty()) {
      const auto [value, node] = heap.top();
      heap.pop();
      if (value != best[node] || (fabric_.is_host(node) && node != from)) continue;
      for (int port = 1; port <= fabric_.ports(node); ++port) {
        const int out = fabric_.link_at(node, port);
        if (out < 0) continue;
        const topology::Link& link = fabric_.link(out);
        const Value next = extend(value, link);
        if (!Worse()(best[link.to], next)) continue;
        best[link.to] = next;
        heap.push({next, link.to});
      }
    }
  }

  const topology::Fabric& fabric_;
  std::vector<int64_t> latency_ns_;
  std::vector<double> rate_;
};

/// Of one message for many: the shortest tree whose servers are all as near to each other and as
/// fast as any two are, each sending to one at a time (postal model: Karp, Sahay, Santos, Schauser,
/// 1993). 0 where a server might send to several at once.
int64_t tree_ns(const Problem& problem) {
  const topology::Fabric& fabric = problem.fabric;
  double fastest = 0, slowest = INFINITY;
  for (int link = 0; link < fabric.links(); ++link) {
    slowest = std::min(slowest, fabric.link(link).bandwidth);
  }
  int64_t nearest = INT64_MAX;
  for (int i = 0; i < problem.servers; ++i) {
    fastest = std::max(fastest, fabric.link(fabric.host_link(problem.hosts[i])).bandwidth);
    for (int j = 0; j < problem.servers; ++j) {
      if (j != i) nearest = std::min(nearest, problem.latency_ns(i, j));
    }
  }
  if (2 * slowest <= fastest) return 0;
  const uint64_t bytes = problem.inputs.block_bytes, piece = std::min(bytes, kLeastPiece);
  const double second = 1e9;
  const auto busy = static_cast<int64_t>(static_cast<double>(bytes) * second / fastest);
  const auto first = static_cast<int64_t>(static_cast<double>(piece) * second / fastest);
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> free;
  free.push(0);
  int64_t last = 0;  // somebody gets the first piece
  for (int have = 1; have < problem.servers; ++have) {
    const int64_t begin = free.top();
    free.pop();
    last = begin + nearest + first;
    free.push(begin + busy);
    free.push(last);
  }
  return last + busy - first;
}

/// What is for many or of many leaves as many servers as there are but one, wherever it goes: the
/// time in which all together can send so much, and where no two share a switch all cables between
/// switches can carry it.
double together_ns(const Problem& problem) {
  const topology::Fabric& fabric = problem.fabric;
  std::vector<int> servers_at(fabric.nodes(), 0);
  bool alone = true;  // at their switches
  double bytes = 0, bandwidth = 0;
  visit_messages(problem.inputs, [&](int origin, int target, uint64_t message) {
    if (origin != kEveryone && target != kEveryone) return;
    bytes += static_cast<double>(message) * (problem.servers - 1);
  });
  if (bytes == 0) return 0;
  for (const int host : problem.hosts) {
    const topology::Link& own = fabric.link(fabric.host_link(host));
    bandwidth += own.bandwidth;
    alone = alone && servers_at[own.to]++ == 0;
  }
  double trunks = 0;
  for (int link = 0; link < fabric.links(); ++link) {
    const topology::Link& l = fabric.link(link);
    if (!fabric.is_host(l.from) && !fabric.is_host(l.to)) trunks += l.bandwidth;
  }
  if (alone) bandwidth = std::min(bandwidth, trunks);
  return bytes * 1e9 / bandwidth;
}

}  // namespace

int64_t lower_bound_ns(const Problem& problem, bool relayed) {
  const topology::Fabric& fabric = problem.fabric;
  Loads loads(fabric);
  const bool limited = problem.inputs.permitted.has_value();
  const bool trunks = !limited && problem.is_tree;
  std::vector<int> counted(fabric.links(), -1);  // by link: the last message of it
  int message = 0;
  // Messages may be cut then, and take several ways at once (direct.h).
  const bool parts = same_for_all(problem.inputs.collective) && is_direct(problem);
  double slowest = 0;  // one message alone
  Path path;
  const auto alone = [&](uint64_t bytes) {
    double rate = path.bandwidth;
    if (parts) {
      rate = std::min(fabric.link(path.hops.front().link).bandwidth,
                      fabric.link(path.hops.back().link).bandwidth);
    }
    slowest = std::max(
        slowest, static_cast<double>(path.latency_ns) + static_cast<double>(bytes) * 1e9 / rate);
  };
  // What goes through other servers need not take the route. On a tree it takes all links of it.
  ShortestWays ways(fabric);
  int ways_from = -1;
  const auto walk_ends = [&](int from, int to, bool from_ways) {
    const int one = problem.hosts[from_ways ? from : to],
              other = problem.hosts[from_ways ? to : from];
    if (ways_from != one) ways.find(one);
    ways_from = one;
    const int up = fabric.host_link(problem.hosts[from]);
    const int down = topology::Fabric::reverse(fabric.host_link(problem.hosts[to]));
    path.latency_ns = ways.latency_ns(other);
    path.bandwidth = ways.rate(other);
    path.hops = {{up, 1, 0}, {down, 1, path.latency_ns - fabric.link(down).latency_ns}};
  };
  visit_messages(problem.inputs, [&](int origin, int target, uint64_t bytes) {
    if (target != kEveryone && origin != kEveryone) {
      if (limited || (relayed && !problem.is_tree)) {
        walk_ends(origin, target, problem.inputs.collective != Collective::kGather);
      } else {
        problem.walk(origin, target, path);
      }
      alone(bytes);
      for (const Hop& hop : path.hops) loads.carry(hop, path, bytes);
      return;
    }
    for (int other = 0; other < problem.servers; ++other) {
      const int source = origin == kEveryone ? other : origin;
      const int sink = origin == kEveryone ? target : other;
      if (source == sink) continue;
      if (trunks) {
        problem.walk(source, sink, path);
      } else {
        walk_ends(source, sink, origin != kEveryone);
      }
      alone(bytes);
      for (const Hop& hop : path.hops) {
        if (counted[hop.link] == message) continue;
        counted[hop.link] = message;
        loads.carry(hop, path, bytes);
      }
    }
    ++message;
  });
  int64_t shortest_tree = 0;
  const Collective collective = problem.inputs.collective;
  if (message > 0 && !parts && spreads(collective) && has_root(collective))
    shortest_tree = tree_ns(problem);
  // Where switches form a tree every cut is a link, and the links know distances, too.
  const double cut = message > 0 && !trunks ? cut_bound_ns(problem) : 0;
  return std::max({loads.bound_ns(), static_cast<int64_t>(std::floor(slowest)),
                   static_cast<int64_t>(std::floor(cut * (1 - kRounding))),
                   static_cast<int64_t>(std::floor(together_ns(problem))), shortest_tree});
}

}  // namespace ibcoll::contention_free
