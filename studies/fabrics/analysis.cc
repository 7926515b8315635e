#include "studies/fabrics/analysis.h"

#include <algorithm>
#include <limits>

#include "studies/fabrics/lanes.h"

namespace ibcoll::topology {

std::vector<int64_t> routes_over_links(const Fabric& fabric) {
  std::vector<int64_t> routes(fabric.links(), 0);
  for (int from = 0; from < fabric.hosts(); ++from) {
    for (int to = 0; to < fabric.hosts(); ++to) {
      fabric.visit_route(from, to, [&](int link) { ++routes[link]; });
    }
  }
  return routes;
}

AllToAllLimit all_to_all_limit(const Fabric& fabric) {
  return all_to_all_limit(fabric, routes_over_links(fabric));
}

AllToAllLimit all_to_all_limit(const Fabric& fabric, const std::vector<int64_t>& routes) {
  AllToAllLimit limit;
  if (fabric.hosts() < 2) return limit;
  const double peers = fabric.hosts() - 1;
  double least = std::numeric_limits<double>::infinity(), hosts_least = least;
  for (int link = 0; link < fabric.links(); ++link) {
    if (routes[link] == 0) continue;
    const double each = fabric.link(link).bandwidth / static_cast<double>(routes[link]) * peers;
    if (each < least) {
      least = each;
      limit.link = link;
    }
    if (fabric.is_host(fabric.link(link).from)) hosts_least = std::min(hosts_least, each);
  }
  limit.bandwidth = least;
  limit.fraction = least / hosts_least;
  return limit;
}

namespace {

/// Which link follows which on some route.
std::vector<std::vector<int>> dependencies(const Fabric& fabric) {
  std::vector<std::vector<int>> follow(fabric.links());
  for (int from = 0; from < fabric.hosts(); ++from) {
    for (int to = 0; to < fabric.hosts(); ++to) {
      int before = -1;
      fabric.visit_route(from, to, [&](int link) {
        if (before >= 0) {
          std::vector<int>& list = follow[before];
          if (std::find(list.begin(), list.end(), link) == list.end()) list.push_back(link);
        }
        before = link;
      });
    }
  }
  return follow;
}

}  // namespace

std::vector<int> find_credit_loop(const Fabric& fabric) {
  const auto follow = dependencies(fabric);
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(follow.size(), Mark::kNew);
  struct Step {
    int link;
    size_t next;  ///< of those that follow it
  };
  std::vector<Step> path;
  for (size_t start = 0; start < follow.size(); ++start) {
    if (marks[start] != Mark::kNew) continue;
    marks[start] = Mark::kOpen;
    path.assign(1, {static_cast<int>(start), 0});
    while (!path.empty()) {
      Step& step = path.back();
      if (step.next == follow[step.link].size()) {
        marks[step.link] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const int next = follow[step.link][step.next++];
      if (marks[next] == Mark::kDone) continue;
      if (marks[next] == Mark::kOpen) {
        std::vector<int> loop;
        auto at = std::find_if(path.begin(), path.end(),
                               [&](const Step& open) { return open.link == next; });
        for (; at != path.end(); ++at) loop.push_back(at->link);
        return loop;
      }
      marks[next] = Mark::kOpen;
      path.push_back({next, 0});
    }
  }
  return {};
}

int lanes_needed(const Fabric& fabric) {
  LaneAssigner assigner(static_cast<uint32_t>(fabric.links()));
  std::vector<uint32_t> between;
  for (int from = 0; from < fabric.hosts(); ++from) {
    for (int to = 0; to < fabric.hosts(); ++to) {
      between.clear();
      fabric.visit_route(from, to, [&](int link) {
        if (fabric.is_host(fabric.link(link).from) || fabric.is_host(fabric.link(link).to)) return;
        between.push_back(static_cast<uint32_t>(link));
      });
      assigner.assign(between);
    }
  }
  return static_cast<int>(assigner.lanes());
}

}  // namespace ibcoll::topology
