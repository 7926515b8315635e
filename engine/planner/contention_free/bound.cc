#include "engine/planner/contention_free/bound.h"

#include <algorithm>
#include <cmath>

#include "engine/planner/contention_free/jobs.h"

namespace ibcoll::contention_free {

namespace {

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

/// Switches joined without a cycle, bundles of cables counted singly.
bool is_tree(const topology::Fabric& fabric) {
  int cables = 0;
  for (int link = 0; link < fabric.links(); link += 2) {
    cables += !fabric.is_host(fabric.link(link).from) && !fabric.is_host(fabric.link(link).to);
  }
  return cables == fabric.switches() - 1;
}

}  // namespace

int64_t lower_bound_ns(const Problem& problem) {
  Loads loads(problem.fabric);
  const bool limited = problem.request.permitted.has_value();
  const bool trunks = !limited && is_tree(problem.fabric);
  std::vector<int> counted(problem.fabric.links(), -1);  // by link: the last message of it
  int message = 0;
  double slowest = 0;  // one message alone
  Path path;
  const auto alone = [&](uint64_t bytes) {
    double rate = path.bandwidth;
    if (limited) {
      rate = std::min(problem.fabric.link(path.hops.front().link).bandwidth,
                      problem.fabric.link(path.hops.back().link).bandwidth);
    }
    slowest = std::max(
        slowest, static_cast<double>(path.latency_ns) + static_cast<double>(bytes) * 1e9 / rate);
  };
  visit_messages(problem.request, [&](int origin, int target, uint64_t bytes) {
    if (target != kEveryone && origin != kEveryone) {
      problem.walk(origin, target, path);
      alone(bytes);
      for (size_t i = 0; i < path.hops.size(); ++i) {
        if (limited && i != 0 && i + 1 != path.hops.size()) continue;
        loads.carry(path.hops[i], path, bytes);
      }
      return;
    }
    for (int other = 0; other < problem.servers; ++other) {
      const int source = origin == kEveryone ? other : origin;
      const int sink = origin == kEveryone ? target : other;
      if (source == sink) continue;
      problem.walk(source, sink, path);
      if (!limited) alone(bytes);
      for (size_t i = 0; i < path.hops.size(); ++i) {
        const bool end = i == 0 || i + 1 == path.hops.size();
        if ((!trunks && !end) || counted[path.hops[i].link] == message) continue;
        counted[path.hops[i].link] = message;
        loads.carry(path.hops[i], path, bytes);
      }
    }
    ++message;
  });
  return std::max(loads.bound_ns(), static_cast<int64_t>(std::floor(slowest)));
}

}  // namespace ibcoll::contention_free
