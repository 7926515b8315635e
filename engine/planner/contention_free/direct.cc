#include "engine/planner/contention_free/direct.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <queue>

#include "engine/planner/contention_free/disjoint_trees.h"
#include "engine/planner/contention_free/match.h"
#include "engine/planner/contention_free/neighbours.h"
#include "engine/planner/contention_free/shipments.h"
#include "engine/schedule/program.h"

namespace ibcoll::contention_free {

namespace {

/// What is this near to the bound is not cut into more parts.
constexpr double kEnough = 1.02;
/// Bytes of a part.
constexpr uint64_t kLeastPart = 4096;
/// Of messages cut into parts, in all.
constexpr uint64_t kMostCopies = 100'000;
/// Links that are looked at for trees, with half of what is left for each try: about a second, and
/// less where the engine plans (kPlannableServers).
constexpr size_t kMostForTrees = 100'000'000;
constexpr double kRoundingRate = 1e-9;

/// The pairs that may send, as shipments.
Problem edges_of(const Problem& problem) {
  Problem edges = problem;
  edges.shipments.clear();
  for (const auto& [from, to] : neighbours(problem)) {
    edges.shipments.push_back({from, to, from, to, 1});
  }
  measure_shipments(edges);
  return edges;
}

/// The widest way over edges from a server to each: the slowest of its edges.
std::vector<double> widest_from(int from, const std::vector<std::vector<Shipment>>& edges) {
  std::vector<double> widest(edges.size(), 0);
  using Reached = std::pair<double, int>;
  std::priority_queue<Reached> heap;
  widest[from] = INFINITY;
  heap.push({widest[from], from});
  while (!heap.empty()) {
    const auto [rate, here] = heap.top();
    heap.pop();
    if (rate < widest[here]) continue;
    for (const Shipment& edge : edges[here]) {
      const double next = std::min(rate, edge.rate);
      if (next <= widest[edge.to]) continue;
      widest[edge.to] = next;
      heap.push({next, edge.to});
    }
  }
  return widest;
}

/// How large the largest message is.
uint64_t longest_message(const Problem& problem) {
  uint64_t longest = 1;
  for (int s = 0; s < problem.servers; ++s) {
    longest = std::max(longest, message_bytes(problem.inputs, s, s));
  }
  return longest;
}

/// The pairs that a matching may use: it gives every link that is free something to do. So not
/// those that would take longer for a message than the bound is for all, if there is a wider way
/// around. (What is left still joins all: a way around has wider edges, or wider ways around them.)
Problem edges_to_match(const Problem& problem, int64_t bound_ns) {
  Problem edges = edges_of(problem);
  const uint64_t longest = (longest_message(problem) + problem.parts - 1) / problem.parts;
  std::vector<std::vector<Shipment>> from(problem.servers);
  for (const Shipment& edge : edges.shipments) from[edge.from].push_back(edge);
  std::vector<double> widest;
  int widest_of = -1;  // the sender in hand
  const auto too_slow = [&](const Shipment& edge) {
    if (duration_ns(longest, edge.rate) <= bound_ns) return false;
    if (widest_of != edge.from) widest = widest_from(edge.from, from);
    widest_of = edge.from;
    return widest[edge.to] > edge.rate;
  };
  if (std::erase_if(edges.shipments, too_slow) > 0) measure_shipments(edges);
  return edges;
}

/// Copies of all messages. `sums`: by server, what completes the sum that is its message.
void add_copies(const Problem& edges, const std::vector<MatchedCopy>& sent,
                const std::vector<uint32_t>& sums, Problem& problem) {
  const auto first = static_cast<uint32_t>(problem.shipments.size());
  for (const MatchedCopy& s : sent) {
    const Shipment& edge = edges.shipments[s.edge];
    const int origin = s.message / problem.parts;
    uint32_t forwards = sums.empty() ? kNone : sums[origin];
    if (s.forwards != kNone) forwards = first + s.forwards;
    problem.shipments.push_back(
        {edge.from, edge.to, origin, kEveryone, bytes_of(problem, s.message), forwards});
    problem.shipments.back().part = s.message % problem.parts;
  }
}

/// Copies the other way round, the last first: partial results. Returns by server one that comes to
/// it of its own message.
std::vector<uint32_t> add_sums(const Problem& edges, std::vector<MatchedCopy> sent,
                               Problem& problem) {
  std::stable_sort(sent.begin(), sent.end(),
                   [](const MatchedCopy& a, const MatchedCopy& b) { return a.end_ns > b.end_ns; });
  const auto servers = static_cast<size_t>(problem.servers);
  std::vector<uint32_t> into(servers * servers, kNone);  // by message and server
  for (const MatchedCopy& s : sent) {
    const Shipment& edge = edges.shipments[s.edge];
    const size_t message = static_cast<size_t>(s.message) * servers;
    into[message + edge.from] = static_cast<uint32_t>(problem.shipments.size());
    problem.shipments.push_back({edge.to, edge.from, kEveryone, s.message,
                                 bytes_of(problem, s.message), into[message + edge.to]});
  }
  std::vector<uint32_t> results(servers);
  for (size_t i = 0; i < servers; ++i) results[i] = into[i * servers + i];
  return results;
}

Timing place_in_turn(const Problem& problem) {
  std::vector<uint32_t> order(problem.shipments.size());
  std::iota(order.begin(), order.end(), 0);
  return place_shipments(problem, order, Place::kInTurn, INT64_MAX);
}

/// Takes of the links what has been placed; returns by server when the sum that it is the target of
/// is complete.
std::vector<int64_t> take_all(const Problem& problem, const Timing& timing, const Problem& edges,
                              std::vector<Tail>& links) {
  std::vector<int64_t> ready_ns(problem.servers, 0);
  Path path;
  for (uint32_t i = 0; i < problem.shipments.size(); ++i) {
    const Shipment& shipment = problem.shipments[i];
    const int64_t start = timing.start_ns[i];
    for (const Hop& hop : problem.route(i, path)) {
      links[hop.link].take(start + hop.before_ns, shipment.duration_ns,
                           edges.links[hop.link].units_of(shipment.rate));
    }
    if (shipment.to != shipment.target) continue;
    int64_t& ready = ready_ns[shipment.to];
    ready = std::max(ready, start + shipment.latency_ns + shipment.duration_ns);
  }
  return ready_ns;
}

Timing spread_copies(Problem& problem, int64_t bound_ns) {
  problem.piece_bytes = problem.inputs.piece_bytes;
  if (problem.by_wholes)
    problem.piece_bytes = std::max(problem.piece_bytes, std::bit_ceil(longest_message(problem)));
  const Problem edges = edges_to_match(problem, bound_ns);
  const std::vector<int64_t> at_once(problem.servers, 0);
  problem.shipments.clear();
  add_copies(edges, match_messages(edges, all_free(edges), at_once, bound_ns), {}, problem);
  measure_shipments(problem);
  return place_in_turn(problem);
}

/// In pieces that go on as they come, or in wholes where some links are faster than others,
/// whichever is better.
Timing spread_either_way(Problem& problem, int64_t bound_ns) {
  Timing best = spread_copies(problem, bound_ns);
  const auto slower = [](const Shipment& a, const Shipment& b) { return a.rate < b.rate; };
  const auto [least, most] =
      std::minmax_element(problem.shipments.begin(), problem.shipments.end(), slower);
  if (problem.shipments.empty() || least->rate == most->rate) return best;
  Problem other = problem;
  other.by_wholes = true;
  Timing timing = spread_copies(other, bound_ns);
  if (timing.time_ns >= best.time_ns) return best;
  problem.take_shipments(other);
  return timing;
}

/// With messages cut into a few parts if they don't divide evenly among the links of a server.
Timing spread_parts(Problem& problem, int64_t bound_ns) {
  Timing best = spread_either_way(problem, bound_ns);
  const auto enough = static_cast<int64_t>(kEnough * static_cast<double>(bound_ns));
  for (int parts = 2; parts <= most_parts(problem.inputs) && best.time_ns > enough; ++parts) {
    const uint64_t messages = static_cast<uint64_t>(problem.servers) * parts;
    if (longest_message(problem) / parts < kLeastPart) break;
    if (messages * problem.servers > kMostCopies) break;
    Problem cut = problem;
    cut.parts = parts;
    Timing timing = spread_either_way(cut, bound_ns);
    if (timing.time_ns >= best.time_ns) continue;
    best = std::move(timing);
    problem.take_shipments(cut);
  }
  return best;
}

Timing spread_sums(Problem& problem, int64_t bound_ns) {
  // What is combined for many goes on when all of it is there.
  problem.piece_bytes = std::bit_ceil(longest_message(problem));
  const Problem edges = edges_to_match(problem, bound_ns);
  const std::vector<int64_t> at_once(problem.servers, 0);
  problem.shipments.clear();
  const std::vector<uint32_t> into =
      add_sums(edges, match_messages(edges, all_free(edges), at_once, bound_ns), problem);
  measure_shipments(problem);
  Timing timing = place_in_turn(problem);
  if (problem.inputs.collective != Collective::kAllreduce) return timing;
  std::vector<Tail> links = all_free(edges);
  const std::vector<int64_t> ready_ns = take_all(problem, timing, edges, links);
  add_copies(edges, match_messages(edges, links, ready_ns, bound_ns), into, problem);
  measure_shipments(problem);
  return place_in_turn(problem);
}

/// Servers, links between them and ports in multiples of what the slowest link carries.
TreeNetwork tree_network(const Problem& problem, const Problem& edges, double slowest) {
  constexpr double kMostUnits = 1 << 20;
  const auto units = [&](double rate) {
    return static_cast<int>(std::min(rate / slowest * (1 + kRoundingRate), kMostUnits));
  };
  TreeNetwork network{problem.servers, {}, {}};
  std::vector<int64_t> out(problem.servers, 0);
  for (const Shipment& edge : edges.shipments) {
    network.arcs.push_back({edge.from, edge.to, units(edge.rate)});
    out[edge.from] += network.arcs.back().trees;
  }
  bool narrow = false;
  for (int s = 0; s < problem.servers; ++s) {
    const int port = problem.fabric.host_link(problem.hosts[s]);
    network.ports.push_back(units(problem.fabric.link(port).bandwidth));
    narrow = narrow || network.ports[s] < out[s];
  }
  if (!narrow) network.ports.clear();
  return network;
}

/// Fills the shipments: one part for each tree, of all trees what is nearest to the root first.
void add_parts(const TreeNetwork& network, const std::vector<DisjointTree>& trees,
               Problem& problem) {
  struct Step {
    int depth, tree;
    uint32_t arc;
  };
  const std::vector<TreeArc>& arcs = network.arcs;
  problem.parts = static_cast<int>(trees.size());
  std::vector<Step> steps;
  for (int t = 0; t < problem.parts; ++t) {
    std::vector<int> depth(problem.servers, 0);
    for (const uint32_t arc : trees[t]) {
      depth[arcs[arc].to] = depth[arcs[arc].from] + 1;
      steps.push_back({depth[arcs[arc].to], t, arc});
    }
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.depth < b.depth; });
  problem.shipments.clear();
  std::vector<uint32_t> brought(static_cast<size_t>(problem.servers) * problem.parts, kNone);
  for (const Step& step : steps) {
    const TreeArc& arc = arcs[step.arc];
    const auto at = [&](int server) {
      return static_cast<size_t>(server) * problem.parts + step.tree;
    };
    brought[at(arc.to)] = static_cast<uint32_t>(problem.shipments.size());
    problem.shipments.push_back(
        {arc.from, arc.to, problem.inputs.root, kEveryone,
         cut_bytes(problem.inputs.block_bytes, static_cast<uint32_t>(problem.parts),
                   static_cast<uint32_t>(step.tree), 1),
         brought[at(arc.from)]});
    problem.shipments.back().part = step.tree;
  }
  measure_shipments(problem);
}

/// With pieces as small as is worth it.
Result<Timing> place_parts(Problem& problem) {
  Timing best;
  best.time_ns = INT64_MAX;
  uint64_t best_piece = 0;
  const auto attempt = [&](uint64_t piece) -> Result<int64_t> {
    problem.piece_bytes = piece;
    Timing timing = place_in_turn(problem);
    const int64_t time_ns = timing.time_ns;
    if (worth_more(time_ns, best.time_ns)) {
      best = std::move(timing);
      best_piece = piece;
    }
    return time_ns;
  };
  const uint64_t whole = std::bit_ceil(problem.shipments.front().bytes);
  IBCOLL_TRY(halve_pieces(std::min(problem.inputs.piece_bytes, whole), attempt));
  problem.piece_bytes = best_piece;
  return best;
}

/// One part for each tree, of as many as links and ports carry at once.
Result<Timing> spread_trees(Problem& problem) {
  Timing best;
  best.time_ns = INT64_MAX;
  const Problem edges = edges_of(problem);
  double slowest = INFINITY;
  for (const Shipment& edge : edges.shipments) slowest = std::min(slowest, edge.rate);
  const TreeNetwork network = tree_network(problem, edges, slowest);
  const uint64_t bytes = problem.inputs.block_bytes;
  int count = most_parts(problem.inputs);
  for (const int port : network.ports) count = std::min(count, port);  // what comes in
  count = static_cast<int>(std::min<uint64_t>(count, bytes / kLeastPart));
  size_t left = kMostForTrees;
  while (count > 0) {
    const double least_ns = static_cast<double>(bytes) / count * 1e9 / slowest;
    if (static_cast<double>(best.time_ns) <= least_ns) break;
    const size_t most = left / 2;  // the rest is for the next try
    size_t effort = most;
    const std::vector<DisjointTree> trees =
        disjoint_trees(network, problem.inputs.root, count, effort);
    left -= most - effort;
    if (trees.empty()) {
      count = effort == 0 ? count / 2 : count - 1;  // fewer may be found in time
      continue;
    }
    Problem cut = problem;
    add_parts(network, trees, cut);
    IBCOLL_ASSIGN(Timing timing, place_parts(cut));
    if (timing.time_ns < best.time_ns) {
      best = std::move(timing);
      problem.take_shipments(cut);
    }
    if (network.ports.empty()) break;  // fewer trees would leave links without work
    count = static_cast<int>(trees.size()) - 1;
  }
  return best;
}

}  // namespace

bool is_direct(const Problem& problem) {
  if (problem.servers < 2 || problem.inputs.permitted) return false;
  std::vector<std::vector<int>> next(problem.servers), before(problem.servers);
  for (const auto& [from, to] : neighbours(problem)) {
    next[from].push_back(to);
    before[to].push_back(from);
  }
  const auto reaches_all = [&](const std::vector<std::vector<int>>& links) {
    std::vector<char> seen(problem.servers, 0);
    std::vector<int> open = {0};
    seen[0] = 1;
    for (size_t at = 0; at < open.size(); ++at) {
      for (const int to : links[open[at]]) {
        if (!seen[to]) open.push_back(to);
        seen[to] = 1;
      }
    }
    return static_cast<int>(open.size()) == problem.servers;
  };
  return reaches_all(next) && reaches_all(before);
}

Result<Timing> spread_directly(Problem& problem, int64_t bound_ns) {
  switch (problem.inputs.collective) {
    case Collective::kBcast:
      return spread_trees(problem);
    case Collective::kAllgather:
      return spread_parts(problem, bound_ns);
    default:
      return spread_sums(problem, bound_ns);
  }
}

}  // namespace ibcoll::contention_free
