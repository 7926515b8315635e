#include "engine/planner/contention_free/direct.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/planner/contention_free/disjoint_trees.h"
#include "engine/planner/contention_free/match.h"
#include "engine/planner/contention_free/shipments.h"
#include "engine/schedule/program.h"

namespace ibcoll::contention_free {

namespace {

constexpr int kHopsToNeighbour = 3;
/// What is this near to the bound is not cut into more parts.
constexpr double kEnough = 1.02;
/// Bytes of a part.
constexpr uint64_t kLeastPart = 4096;
/// Of messages cut into parts, in all.
constexpr uint64_t kMostCopies = 100'000;
/// Servers times links between them, of networks on which trees are looked for.
constexpr size_t kMostForTrees = 4'000'000;
constexpr int kMostTrees = 64;
constexpr double kRoundingRate = 1e-9;
/// Smaller pieces are taken where they save this part of the time.
constexpr double kWorthSmaller = 0.03;

/// Pairs of servers whose route is a cable between their switches, by sender.
std::vector<std::pair<int, int>> neighbouring(const Problem& problem) {
  const topology::Fabric& fabric = problem.fabric;
  const auto leaf = [&](int server) {
    return fabric.link(fabric.host_link(problem.hosts[server])).to;
  };
  std::vector<int> server_at(fabric.nodes(), -1);
  for (int s = 0; s < problem.servers; ++s) {
    int& there = server_at[leaf(s)];
    if (there >= 0) return {};
    there = s;
  }
  std::vector<std::pair<int, int>> pairs;
  for (int s = 0; s < problem.servers; ++s) {
    for (int port = 1; port <= fabric.ports(leaf(s)); ++port) {
      const int link = fabric.link_at(leaf(s), port);
      const int other = link < 0 ? -1 : server_at[fabric.link(link).to];
      // Of several cables the one on the route.
      if (other < 0 || fabric.next_link(leaf(s), problem.hosts[other]) != link) continue;
      if (fabric.hops(problem.hosts[other], problem.hosts[s]) != kHopsToNeighbour) continue;
      pairs.emplace_back(s, other);
    }
  }
  return pairs;
}

/// The pairs that may send, as shipments.
Problem edges_of(const Problem& problem) {
  Problem edges = problem;
  edges.shipments.clear();
  for (const auto& [from, to] : neighbouring(problem)) {
    edges.shipments.push_back({from, to, from, to, 1});
  }
  measure_shipments(edges);
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

/// How large the largest message is.
uint64_t longest_message(const Problem& problem) {
  uint64_t longest = 1;
  for (int s = 0; s < problem.servers; ++s) {
    longest = std::max(longest, message_bytes(problem.inputs, s, s));
  }
  return longest;
}

Timing spread_copies(Problem& problem, int64_t bound_ns) {
  problem.piece_bytes = problem.inputs.piece_bytes;
  const Problem edges = edges_of(problem);
  const std::vector<int64_t> at_once(problem.servers, 0);
  problem.shipments.clear();
  add_copies(edges, match_messages(edges, all_free(edges), at_once, bound_ns), {}, problem);
  measure_shipments(problem);
  return place_in_turn(problem);
}

/// With messages cut into a few parts if they don't divide evenly among the links of a server.
Timing spread_parts(Problem& problem, int64_t bound_ns) {
  Timing best = spread_copies(problem, bound_ns);
  const auto enough = static_cast<int64_t>(kEnough * static_cast<double>(bound_ns));
  for (int parts = 2; parts <= problem.inputs.most_parts && best.time_ns > enough; ++parts) {
    const uint64_t messages = static_cast<uint64_t>(problem.servers) * parts;
    if (longest_message(problem) / parts < kLeastPart) break;
    if (messages * problem.servers > kMostCopies) break;
    Problem cut = problem;
    cut.parts = parts;
    Timing timing = spread_copies(cut, bound_ns);
    if (timing.time_ns >= best.time_ns) continue;
    best = std::move(timing);
    problem.take_shipments(cut);
  }
  return best;
}

Timing spread_sums(Problem& problem, int64_t bound_ns) {
  // What is combined for many goes on when all of it is there.
  problem.piece_bytes = std::bit_ceil(longest_message(problem));
  const Problem edges = edges_of(problem);
  const std::vector<int64_t> at_once(problem.servers, 0);
  problem.shipments.clear();
  const std::vector<uint32_t> into =
      add_sums(edges, match_messages(edges, all_free(edges), at_once, bound_ns), problem);
  measure_shipments(problem);
  Timing timing = place_in_turn(problem);
  if (problem.inputs.kind != Kind::kAllreduce) return timing;
  std::vector<Tail> links = all_free(edges);
  const std::vector<int64_t> ready_ns = take_all(problem, timing, edges, links);
  add_copies(edges, match_messages(edges, links, ready_ns, bound_ns), into, problem);
  measure_shipments(problem);
  return place_in_turn(problem);
}

/// One part for each tree of as many as share no link.
Timing spread_trees(Problem& problem) {
  Timing none;
  none.time_ns = INT64_MAX;
  const Problem edges = edges_of(problem);
  if (edges.shipments.size() * problem.servers > kMostForTrees) return none;
  double least = INFINITY;
  for (const Shipment& edge : edges.shipments) least = std::min(least, edge.rate);
  std::vector<TreeArc> arcs;
  for (const Shipment& edge : edges.shipments) {
    arcs.push_back({edge.from, edge.to, static_cast<int>(edge.rate / least * (1 + kRoundingRate))});
  }
  const int most = problem.inputs.most_parts == 0 ? kMostTrees : problem.inputs.most_parts;
  const std::vector<DisjointTree> trees =
      disjoint_trees(problem.servers, arcs, problem.inputs.root, most);
  const uint64_t bytes = problem.inputs.block_bytes;
  problem.parts = static_cast<int>(trees.size());
  if (bytes / trees.size() < kLeastPart) return none;
  // Of all trees what is nearest to the root first.
  struct Step {
    int depth, tree;
    uint32_t arc;
  };
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
    problem.shipments.push_back({arc.from, arc.to, problem.inputs.root, kEveryone,
                                 cut_bytes(bytes, static_cast<uint32_t>(problem.parts),
                                           static_cast<uint32_t>(step.tree), 1),
                                 brought[at(arc.from)]});
    problem.shipments.back().part = step.tree;
  }
  measure_shipments(problem);
  Timing best = none;
  const uint64_t whole = std::bit_ceil(problem.shipments.front().bytes);
  for (uint64_t piece = std::min(problem.inputs.piece_bytes, whole); piece >= kLeastPiece;
       piece /= 2) {
    const uint64_t before = problem.piece_bytes;
    problem.piece_bytes = piece;
    Timing timing = place_in_turn(problem);
    if (best.time_ns<INT64_MAX&& static_cast<double>(timing.time_ns)>(1 - kWorthSmaller) *
        static_cast<double>(best.time_ns)) {
      problem.piece_bytes = before;
      break;
    }
    best = std::move(timing);
  }
  return best;
}

}  // namespace

bool is_direct(const Problem& problem) {
  if (problem.servers < 2 || problem.inputs.permitted) return false;
  const auto pairs = neighbouring(problem);
  std::vector<std::vector<int>> next(problem.servers);
  for (const auto& [from, to] : pairs) next[from].push_back(to);
  std::vector<char> seen(problem.servers, 0);
  std::vector<int> open = {0};
  seen[0] = 1;
  for (size_t at = 0; at < open.size(); ++at) {
    for (const int to : next[open[at]]) {
      if (!seen[to]) open.push_back(to);
      seen[to] = 1;
    }
  }
  return static_cast<int>(open.size()) == problem.servers;
}

Timing spread_directly(Problem& problem, int64_t bound_ns) {
  switch (problem.inputs.kind) {
    case Kind::kBcast:
      return spread_trees(problem);
    case Kind::kAllgather:
      return spread_parts(problem, bound_ns);
    default:
      return spread_sums(problem, bound_ns);
  }
}

}  // namespace ibcoll::contention_free
