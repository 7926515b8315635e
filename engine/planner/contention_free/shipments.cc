#include "engine/planner/contention_free/shipments.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace ibcoll::contention_free {

namespace {

/// Who gets a message from whom, in an order in which each has it before it sends it.
struct Step {
  int from, to;
};

/// The servers that each may send to, in ascending order.
Result<std::vector<std::vector<int>>> permitted_servers(const Problem& problem) {
  std::vector<std::vector<int>> next(problem.servers);
  for (const auto& [a, b] : *problem.inputs.permitted) {
    for (const int server : {a, b}) {
      if (server >= 0 && server < problem.servers) continue;
      return fail(ErrorCode::kInvalidArgument, "permitted pair {}-{}: there are servers 0 to {}", a,
                  b, problem.servers - 1);
    }
    if (a == b) {
      return fail(ErrorCode::kInvalidArgument, "permitted pair {}-{}: a server and itself", a, b);
    }
    next[a].push_back(b);
    next[b].push_back(a);
  }
  for (std::vector<int>& list : next) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return next;
}

/// From `source` to all by the fewest permitted pairs, of these the shortest in time: by server the
/// one before it.
Result<std::vector<int>> ways(const Problem& problem, const std::vector<std::vector<int>>& next,
                              int source, std::vector<int>& order) {
  std::vector<int> before(problem.servers, -1), hops(problem.servers, INT32_MAX);
  std::vector<int64_t> latency(problem.servers, INT64_MAX);
  order.assign(1, source);
  hops[source] = 0;
  latency[source] = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const int here = order[i];
    for (const int there : next[here]) {
      if (hops[there] <= hops[here]) continue;
      const int64_t arrival = latency[here] + problem.latency_ns(here, there);
      if (hops[there] == INT32_MAX) order.push_back(there);
      if (arrival < latency[there]) {
        latency[there] = arrival;
        before[there] = here;
      }
      hops[there] = hops[here] + 1;
    }
  }
  if (static_cast<int>(order.size()) < problem.servers) {
    const auto lost = std::find(hops.begin(), hops.end(), INT32_MAX);
    return fail(ErrorCode::kInvalidArgument,
                "the permitted pairs leave no way between servers {} and {}", source,
                lost - hops.begin());
  }
  return before;
}

/// All servers in the order in which a walk through the network that begins at `source` meets
/// them: those of its switch first, each switch's neighbours before those further away, everything
/// in turn from where the walk came. On a tree it goes down every link once and up at most once.
std::vector<int> nearest_first(const Problem& problem, int source,
                               const std::vector<std::vector<int>>& servers_at) {
  const topology::Fabric& fabric = problem.fabric;
  std::vector<char> seen(fabric.switches(), 0);
  std::vector<int> order;
  struct Visit {
    int node, port, left;
  };
  std::vector<Visit> stack;
  const auto enter = [&](int node, int port) {
    seen[node - fabric.hosts()] = 1;
    const std::vector<int>& here = servers_at[node - fabric.hosts()];
    const auto mine = std::find(here.begin(), here.end(), source);
    // Data of different origins enters by different servers.
    const size_t first = mine == here.end() ? static_cast<size_t>(problem.position[source])
                                            : static_cast<size_t>(mine - here.begin());
    for (size_t i = 0; i < here.size(); ++i) order.push_back(here[(first + i) % here.size()]);
    stack.push_back({node, port, fabric.ports(node)});
  };
  const topology::Link& own = fabric.link(fabric.host_link(problem.hosts[source]));
  enter(own.to, own.to_port);
  while (!stack.empty()) {
    Visit& top = stack.back();
    if (top.left-- == 0) {
      stack.pop_back();
      continue;
    }
    top.port = top.port % fabric.ports(top.node) + 1;
    const int link = fabric.link_at(top.node, top.port);
    if (link < 0 || fabric.is_host(fabric.link(link).to)) continue;
    const int node = fabric.link(link).to;
    if (!seen[node - fabric.hosts()]) enter(node, fabric.link(link).to_port);
  }
  return order;
}

void chain(const std::vector<int>& members, std::vector<Step>& steps) {
  for (size_t i = 1; i < members.size(); ++i) steps.push_back({members[i - 1], members[i]});
}

/// A step of a tree, and when it begins.
struct TimedStep {
  int64_t begin_ns;
  Step step;
};

/// Spreads a message among servers of which the first has it: whoever can send first sends to the
/// next. `free_ns`: by server, when those that have it may send; others' are set.
void spread_earliest(const Problem& problem, uint64_t bytes, const std::vector<int>& members,
                     std::vector<int64_t>& free_ns, std::vector<TimedStep>& steps) {
  // By place among the members: trees from different servers are then alike, and turned.
  using Sender = std::pair<int64_t, size_t>;
  std::priority_queue<Sender, std::vector<Sender>, std::greater<>> senders;
  senders.push({free_ns[members[0]], 0});
  const uint64_t piece = std::min(bytes, problem.piece_bytes);
  for (size_t next = 1; next < members.size(); ++next) {
    const auto [begin, place] = senders.top();
    senders.pop();
    const int from = members[place], to = members[next];
    const double rate = problem.fabric.route_bandwidth(problem.hosts[from], problem.hosts[to]);
    steps.push_back({begin, {from, to}});
    free_ns[from] = begin + duration_ns(bytes, rate);
    free_ns[to] = begin + problem.latency_ns(from, to) + duration_ns(piece, rate);
    senders.push({free_ns[from], place});
    senders.push({free_ns[to], next});
  }
}

std::vector<Step> spread_from(const Problem& problem, int source, uint64_t bytes, Spread spread,
                              const std::vector<std::vector<int>>& servers_at) {
  std::vector<Step> steps;
  if (spread == Spread::kRing) {
    std::vector<int> ring = problem.by_position;
    std::rotate(ring.begin(), ring.begin() + problem.position[source], ring.end());
    chain(ring, steps);
    return steps;
  }
  const std::vector<int> order = nearest_first(problem, source, servers_at);
  if (spread == Spread::kChain) {
    chain(order, steps);
    return steps;
  }
  // One server of each switch, then inside all switches alike.
  std::vector<std::vector<int>> groups;
  int last = -1;
  for (const int server : order) {
    const int leaf = problem.leaf(server);
    if (leaf != last) groups.emplace_back();
    groups.back().push_back(server);
    last = leaf;
  }
  std::vector<int> heads;
  for (const auto& group : groups) heads.push_back(group[0]);
  std::vector<int64_t> free_ns(problem.servers, 0);
  std::vector<TimedStep> timed;
  if (spread == Spread::kBranches) {
    chain(heads, steps);
  } else {
    spread_earliest(problem, bytes, heads, free_ns, timed);
  }
  if (spread == Spread::kEarliest) {
    for (const auto& group : groups) spread_earliest(problem, bytes, group, free_ns, timed);
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const TimedStep& a, const TimedStep& b) { return a.begin_ns < b.begin_ns; });
  for (const TimedStep& step : timed) steps.push_back(step.step);
  if (spread == Spread::kEarliest) return steps;
  size_t longest = 0;
  for (const auto& group : groups) longest = std::max(longest, group.size());
  for (size_t i = 1; i < longest; ++i) {
    for (const auto& group : groups) {
      if (i < group.size()) steps.push_back({group[i - 1], group[i]});
    }
  }
  return steps;
}

/// Shipments of data for many: all messages' first steps, then all second ones, and so on. Partial
/// results go the way back, last steps first, before what they come to goes on.
Status spread_shipments(Problem& problem, Spread spread) {
  std::vector<std::vector<int>> next, servers_at(problem.fabric.switches());
  const bool limited = problem.inputs.permitted.has_value();
  if (limited) {
    IBCOLL_ASSIGN(next, permitted_servers(problem));
  }
  for (const int server : problem.by_position) {
    servers_at[problem.leaf(server) - problem.fabric.hosts()].push_back(server);
  }
  struct Item {
    int origin, target, source;  ///< the source is where all its ways begin, or end
    uint64_t bytes;
    std::vector<Step> steps;
    std::vector<uint32_t> arrived;  ///< by server: the shipment that brings it
  };
  std::vector<Item> items;
  visit_messages(problem.inputs, [&](int origin, int target, uint64_t bytes) {
    items.push_back({origin, target, origin == kEveryone ? target : origin, bytes, {}, {}});
  });
  size_t longest = 0;
  std::vector<int> order;
  for (Item& item : items) {
    if (limited) {
      IBCOLL_ASSIGN(const std::vector<int> before, ways(problem, next, item.source, order));
      for (size_t i = 1; i < order.size(); ++i) item.steps.push_back({before[order[i]], order[i]});
    } else {
      item.steps = spread_from(problem, item.source, item.bytes, spread, servers_at);
    }
    item.arrived.assign(problem.servers, Transfer::kNone);
    longest = std::max(longest, item.steps.size());
  }
  std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
    return problem.position[a.source] < problem.position[b.source];
  });
  const auto add = [&](Item& item, int from, int to) {
    const auto index = static_cast<uint32_t>(problem.shipments.size());
    problem.shipments.push_back(
        {from, to, item.origin, item.target, item.bytes, item.arrived[from]});
    item.arrived[to] = index;
  };
  for (size_t i = longest; i-- > 0;) {
    for (Item& item : items) {
      if (item.origin != kEveryone || i >= item.steps.size()) continue;
      add(item, item.steps[i].to, item.steps[i].from);
    }
  }
  std::vector<uint32_t> summed(problem.servers, Transfer::kNone);
  for (const Item& item : items) {
    if (item.origin == kEveryone) summed[item.target] = item.arrived[item.target];
  }
  for (Item& item : items) {
    if (item.origin != kEveryone) item.arrived[item.origin] = summed[item.origin];
  }
  for (size_t i = 0; i < longest; ++i) {
    for (Item& item : items) {
      if (item.origin == kEveryone || i >= item.steps.size()) continue;
      add(item, item.steps[i].from, item.steps[i].to);
    }
  }
  return {};
}

Status straight_shipments(Problem& problem) {
  if (!problem.inputs.permitted) {
    const auto servers = static_cast<size_t>(problem.servers);
    problem.shipments.reserve(is_alltoall(problem.inputs.collective) ? servers * (servers - 1)
                                                                     : servers);
    visit_messages(problem.inputs, [&](int origin, int target, uint64_t bytes) {
      problem.shipments.push_back({origin, target, origin, target, bytes, Transfer::kNone});
    });
    return {};
  }
  IBCOLL_ASSIGN(const auto next, permitted_servers(problem));
  // Ways are found from the end that messages share; a way there is a way back.
  const bool to_root = problem.inputs.collective == Collective::kGather;
  std::vector<std::vector<int>> before(problem.servers);
  std::vector<int> order, way;
  Status status;
  visit_messages(problem.inputs, [&](int origin, int target, uint64_t bytes) {
    const int source = to_root ? target : origin;
    if (!status) return;
    if (before[source].empty()) {
      auto found = ways(problem, next, source, order);
      if (!found) {
        status = tl::unexpected<Error>(std::move(found).error());
        return;
      }
      before[source] = *std::move(found);
    }
    way.clear();
    for (int at = to_root ? origin : target; at != source; at = before[source][at]) {
      way.push_back(at);
    }
    way.push_back(source);
    if (!to_root) std::reverse(way.begin(), way.end());
    uint32_t last = Transfer::kNone;
    for (size_t i = 1; i < way.size(); ++i) {
      problem.shipments.push_back({way[i - 1], way[i], origin, target, bytes, last});
      last = static_cast<uint32_t>(problem.shipments.size()) - 1;
    }
  });
  return status;
}

}  // namespace

Status make_shipments(Problem& problem, Spread spread) {
  problem.shipments.clear();
  IBCOLL_TRY(spreads(problem.inputs.collective) ? spread_shipments(problem, spread)
                                                : straight_shipments(problem));
  measure_shipments(problem);
  return {};
}

}  // namespace ibcoll::contention_free
