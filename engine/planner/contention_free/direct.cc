#include "engine/planner/contention_free/direct.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>
#include <random>
#include <tuple>

#include "engine/planner/contention_free/link_calendar.h"
#include "engine/planner/contention_free/shipments.h"

namespace ibcoll::contention_free {

namespace {

/// Seeds are tried until so many shipments have been chosen, or the bound is this near.
constexpr size_t kMostChosen = 300'000;
constexpr int kMostSeeds = 64;
constexpr double kNear = 1.005;
constexpr int kHopsToNeighbour = 3;

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

/// Chooses what goes over which link when.
class Match {
 public:
  struct Sent {
    uint32_t edge;
    int message;  ///< its origin
    int64_t start_ns, end_ns;
    uint32_t forwards;  ///< what brought it
  };

  /// `edges`: a problem whose shipments are the pairs that may send, each with the bytes of what
  /// its sender has. `links`: what is taken of each link already; `ready_ns`: when each server has
  /// its own message.
  Match(const Problem& edges, std::vector<Tail> links, const std::vector<int64_t>& ready_ns,
        uint64_t seed)
      : edges_(edges),
        servers_(edges.servers),
        words_((static_cast<size_t>(servers_) + 63) / 64),
        links_(std::move(links)),
        has_(servers_ * words_),
        promised_(servers_ * words_),
        brought_(static_cast<size_t>(servers_) * servers_, kNone),
        copies_(servers_, 1),
        bytes_(servers_),
        from_(servers_),
        waits_(edges.shipments.size(), 1),
        random_(seed) {
    for (uint32_t e = 0; e < edges.shipments.size(); ++e) {
      from_[edges.shipments[e].from].push_back(e);
    }
    for (int s = 0; s < servers_; ++s) {
      bytes_[s] = message_bytes(s);
      set(promised_, s, s);
      arrivals_.push({ready_ns[s], s, s});
    }
  }

  /// All that goes, by start.
  const std::vector<Sent>& run() {
    while (!arrivals_.empty() || !free_.empty()) {
      if (!arrivals_.empty() && (free_.empty() || arrivals_.top().at_ns <= free_.top().at_ns)) {
        const Arrival arrival = arrivals_.top();
        arrivals_.pop();
        arrive(arrival);
      } else {
        const Free free = free_.top();
        free_.pop();
        send(free.edge, free.at_ns);
      }
    }
    return sent_;
  }
  int64_t time_ns() const { return time_ns_; }

 private:
  struct Arrival {
    int64_t at_ns;
    int server, message;
    bool operator<(const Arrival& other) const { return at_ns > other.at_ns; }  // a min-heap
  };
  struct Free {
    int64_t at_ns;
    uint64_t turn;  ///< of links that are free together
    uint32_t edge;
    bool operator<(const Free& other) const {
      return std::pair(at_ns, turn) > std::pair(other.at_ns, other.turn);
    }
  };
  using Bits = std::vector<uint64_t>;

  uint64_t message_bytes(int server) const {
    return contention_free::message_bytes(edges_.inputs, server, server);
  }
  void set(Bits& bits, int server, int message) const {
    bits[server * words_ + message / 64] |= uint64_t{1} << message % 64;
  }

  void offer(uint32_t edge, int64_t at_ns) { free_.push({at_ns, random_(), edge}); }

  void arrive(const Arrival& arrival) {
    set(has_, arrival.server, arrival.message);
    for (const uint32_t edge : from_[arrival.server]) {
      if (!waits_[edge]) continue;
      waits_[edge] = 0;
      offer(edge, arrival.at_ns);
    }
  }

  /// Of what the sender has and the receiver lacks what fewest have; of these any.
  int choose(const Shipment& edge) {
    const uint64_t* mine = has_.data() + edge.from * words_;
    const uint64_t* theirs = promised_.data() + edge.to * words_;
    int best = -1, least = INT32_MAX, alike = 0;
    for (size_t w = 0; w < words_; ++w) {
      for (uint64_t left = mine[w] & ~theirs[w]; left != 0; left &= left - 1) {
        const int message = static_cast<int>(w) * 64 + std::countr_zero(left);
        if (bytes_[message] == 0 || copies_[message] > least) continue;
        alike = copies_[message] == least ? alike + 1 : 1;
        least = copies_[message];
        if (alike == 1 || random_() % alike == 0) best = message;
      }
    }
    return best;
  }

  void send(uint32_t e, int64_t at_ns) {
    const Shipment& edge = edges_.shipments[e];
    const int message = choose(edge);
    if (message < 0) {
      waits_[e] = 1;
      return;
    }
    const uint32_t before = brought_[static_cast<size_t>(edge.from) * servers_ + message];
    double rate = edge.rate;
    if (before != kNone) rate = std::min(rate, rates_[before]);
    const int64_t length = duration_ns(bytes_[message], rate);
    const std::span<const Hop> route = edges_.route(e, path_);
    const int64_t start = fit_way(links_, route, at_ns, length);
    if (start > at_ns) return offer(e, start);
    for (const Hop& hop : route) {
      links_[hop.link].take(start + hop.before_ns, length,
                            edges_.links[hop.link].units_of(rate));
    }
    const auto index = static_cast<uint32_t>(sent_.size());
    sent_.push_back({e, message, start, start + edge.latency_ns + length, before});
    rates_.push_back(rate);
    time_ns_ = std::max(time_ns_, sent_.back().end_ns);
    brought_[static_cast<size_t>(edge.to) * servers_ + message] = index;
    set(promised_, edge.to, message);
    ++copies_[message];
    const uint64_t piece = std::min(bytes_[message], edges_.piece_bytes);
    arrivals_.push({start + edge.latency_ns + duration_ns(piece, rate), edge.to, message});
    offer(e, start + length);
  }

  const Problem& edges_;
  const int servers_;
  const size_t words_;  ///< of a set of messages
  std::vector<Tail> links_;
  Bits has_, promised_;             ///< by server: messages that are there, or there or under way
  std::vector<uint32_t> brought_;   ///< by server and message: what brings it
  std::vector<int> copies_;         ///< by message
  std::vector<uint64_t> bytes_;     ///< by message
  std::vector<std::vector<uint32_t>> from_;  ///< edges by server
  std::vector<char> waits_;         ///< by edge: its sender has nothing for its receiver
  std::priority_queue<Arrival> arrivals_;
  std::priority_queue<Free> free_;
  std::vector<Sent> sent_;
  std::vector<double> rates_;  ///< of what is sent
  int64_t time_ns_ = 0;
  std::mt19937_64 random_;
  Path path_;
};

std::vector<Tail> all_free(const Problem& problem) {
  std::vector<Tail> links;
  links.reserve(problem.links.size());
  for (const LinkUse& use : problem.links) links.emplace_back(std::max(1, use.units));
  return links;
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

/// The shortest of several.
std::vector<Match::Sent> best_match(const Problem& edges, const std::vector<Tail>& links,
                                    const std::vector<int64_t>& ready_ns, int64_t bound_ns) {
  std::vector<Match::Sent> best;
  int64_t least_ns = INT64_MAX;
  size_t chosen = 0;
  for (int seed = 0; seed < kMostSeeds && chosen < kMostChosen; ++seed) {
    Match match(edges, links, ready_ns, edges.inputs.seed + static_cast<uint64_t>(seed));
    const std::vector<Match::Sent>& sent = match.run();
    chosen += sent.size();
    if (match.time_ns() >= least_ns) continue;
    least_ns = match.time_ns();
    best = sent;
    if (static_cast<double>(least_ns) <= kNear * static_cast<double>(bound_ns)) break;
  }
  return best;
}

/// Copies of all messages. `sums`: by server, what completes the sum that is its message.
void add_copies(const Problem& edges, const std::vector<Match::Sent>& sent,
                const std::vector<uint32_t>& sums, Problem& problem) {
  const auto first = static_cast<uint32_t>(problem.shipments.size());
  for (const Match::Sent& s : sent) {
    const Shipment& edge = edges.shipments[s.edge];
    uint32_t forwards = sums.empty() ? kNone : sums[s.message];
    if (s.forwards != kNone) forwards = first + s.forwards;
    problem.shipments.push_back({edge.from, edge.to, s.message, kEveryone,
                                 message_bytes(problem.inputs, s.message, s.message), forwards});
  }
}

/// Copies the other way round, the last first: partial results. Returns by server one that comes to
/// it of its own message.
std::vector<uint32_t> add_sums(const Problem& edges, std::vector<Match::Sent> sent,
                               Problem& problem) {
  std::stable_sort(sent.begin(), sent.end(), [](const Match::Sent& a, const Match::Sent& b) {
    return a.end_ns > b.end_ns;
  });
  const auto servers = static_cast<size_t>(problem.servers);
  std::vector<uint32_t> into(servers * servers, kNone);  // by message and server
  for (const Match::Sent& s : sent) {
    const Shipment& edge = edges.shipments[s.edge];
    const size_t message = static_cast<size_t>(s.message) * servers;
    into[message + edge.from] = static_cast<uint32_t>(problem.shipments.size());
    problem.shipments.push_back({edge.to, edge.from, kEveryone, s.message,
                                 message_bytes(problem.inputs, s.message, s.message),
                                 into[message + edge.to]});
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
  const Kind kind = problem.inputs.kind;
  const bool sums = kind != Kind::kAllgather;
  uint64_t longest = 1;
  for (int s = 0; s < problem.servers; ++s) {
    longest = std::max(longest, message_bytes(problem.inputs, s, s));
  }
  // What is combined for many goes on when all of it is there.
  problem.piece_bytes = sums ? std::bit_ceil(longest) : problem.inputs.piece_bytes;
  const Problem edges = edges_of(problem);
  const std::vector<int64_t> at_once(problem.servers, 0);
  const std::vector<Match::Sent> copies =
      best_match(edges, all_free(edges), at_once, bound_ns);
  problem.shipments.clear();
  if (!sums) add_copies(edges, copies, {}, problem);
  if (sums) {
    const std::vector<uint32_t> into = add_sums(edges, copies, problem);
    if (kind == Kind::kAllreduce) {
      measure_shipments(problem);
      const Timing timing = place_in_turn(problem);
      std::vector<Tail> links = all_free(edges);
      const std::vector<int64_t> ready_ns = take_all(problem, timing, edges, links);
      add_copies(edges, best_match(edges, links, ready_ns, bound_ns), into, problem);
    }
  }
  measure_shipments(problem);
  return place_in_turn(problem);
}

}  // namespace ibcoll::contention_free
