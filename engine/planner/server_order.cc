#include "engine/planner/server_order.h"

#include <algorithm>
#include <numeric>

namespace ibcoll {

namespace {

using topology::Fabric;

/// Orders servers by where their hosts hang in the network.
class TreeOrder {
 public:
  TreeOrder(const Fabric& fabric, std::span<const int> hosts) : fabric_(fabric), hosts_(hosts) {}

  std::vector<int> order() {
    std::vector<int> servers(hosts_.size());
    std::iota(servers.begin(), servers.end(), 0);
    sort(servers, -1);
    return servers;
  }

 private:
  int hops(int a, int b) const { return fabric_.hops(hosts_[a], hosts_[b]); }

  /// Sorts a group of servers; `outside` is a server that is not among them, or -1.
  void sort(std::vector<int>& group, int outside) {
    if (group.size() < 2) return;
    // Subgroups: those that are nearer to their first member than the farthest are.
    int farthest = 0;
    for (const int server : group) {
      if (server != group[0]) farthest = std::max(farthest, hops(group[0], server));
    }
    std::vector<std::vector<int>> parts;
    for (const int server : group) {
      const auto near = [&](const std::vector<int>& part) {
        return hops(part[0], server) < farthest;
      };
      const auto part = std::find_if(parts.begin(), parts.end(), near);
      if (part == parts.end()) {
        parts.push_back({server});
      } else {
        part->push_back(server);
      }
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      sort(parts[i], parts.size() > 1 ? parts[i == 0 ? 1 : 0][0] : outside);
    }
    // Subgroups in the order in which routes from outside to their first members part.
    if (outside >= 0) {
      std::vector<std::pair<std::vector<int>, size_t>> keys;
      for (size_t i = 0; i < parts.size(); ++i) {
        keys.emplace_back(fabric_.route(hosts_[outside], hosts_[parts[i][0]]), i);
      }
      std::sort(keys.begin(), keys.end());
      std::vector<std::vector<int>> sorted;
      for (const auto& [route, i] : keys) sorted.push_back(std::move(parts[i]));
      parts = std::move(sorted);
    }
    group.clear();
    for (const auto& part : parts) group.insert(group.end(), part.begin(), part.end());
  }

  const Fabric& fabric_;
  const std::span<const int> hosts_;
};

}  // namespace

double walk_seconds(const Fabric& fabric, const Shape& shape, std::span<const int> hosts,
                    std::span<const int> order) {
  const auto servers = static_cast<int>(order.size());
  std::vector<double> load(fabric.links());
  std::vector<int> touched;
  double sum = 0;
  for (int j = 1; j < servers; ++j) {
    double longest = 0;
    for (int i = 0; i < servers; ++i) {
      const int from = order[i], to = order[(i + j) % servers];
      const double bytes = static_cast<double>(shape.server_size(from)) * shape.server_size(to);
      fabric.visit_route(hosts[from], hosts[to], [&](int link) {
        if (load[link] == 0) touched.push_back(link);
        load[link] += bytes;
        longest = std::max(longest, load[link] / fabric.link(link).bandwidth);
      });
    }
    for (const int link : touched) load[link] = 0;
    touched.clear();
    sum += longest;
  }
  return sum;
}

ServerOrder fabric_server_order(const Fabric& fabric, const Shape& shape,
                                std::span<const int> hosts) {
  ServerOrder best;
  best.order.resize(hosts.size());
  std::iota(best.order.begin(), best.order.end(), 0);
  best.before = best.after = walk_seconds(fabric, shape, hosts, best.order);
  std::vector<int> by_host = best.order;
  std::stable_sort(by_host.begin(), by_host.end(),
                   [&](int a, int b) { return hosts[a] < hosts[b]; });
  for (auto& order : {by_host, TreeOrder(fabric, hosts).order()}) {
    const double seconds = walk_seconds(fabric, shape, hosts, order);
    if (seconds < best.after) {
      best.after = seconds;
      best.order = order;
    }
  }
  return best;
}

Result<Shape> renumber_servers(const Shape& shape, std::span<const int> order) {
  std::vector<int> number(shape.servers(), -1);
  if (order.size() != number.size()) {
    return fail(ErrorCode::kInvalidArgument, "an order of {} servers for {}", order.size(),
                number.size());
  }
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || order[i] >= shape.servers() || number[order[i]] >= 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "server {} at place {}: must be each of 0 to {} once", order[i], i,
                  shape.servers() - 1);
    }
    number[order[i]] = static_cast<int>(i);
  }
  std::vector<int> server_of;
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    server_of.push_back(number[shape.server_of(rank)]);
  }
  return Shape::create(server_of);
}

}  // namespace ibcoll
