#include "engine/planner/contention_free/match.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <random>

#include "engine/schedule/program.h"

namespace ibcoll::contention_free {

namespace {

/// Seeds are tried until so many shipments have been chosen, or the bound is this near.
constexpr size_t kMostChosen = 300'000;
constexpr int kMostSeeds = 64;
constexpr double kNear = 1.005;
/// A link so many times slower than others to its receiver is left to what those can't bring.
constexpr double kMuchSlower = 4;

/// By edge: the servers that have a much faster edge to its receiver.
std::vector<std::vector<int>> much_faster(const Problem& edges) {
  const auto slower = [](const Shipment& a, const Shipment& b) { return a.rate < b.rate; };
  const auto [least, most] =
      std::minmax_element(edges.shipments.begin(), edges.shipments.end(), slower);
  if (edges.shipments.empty() || most->rate < kMuchSlower * least->rate) return {};
  std::vector<std::vector<uint32_t>> into(edges.servers);
  for (uint32_t e = 0; e < edges.shipments.size(); ++e) into[edges.shipments[e].to].push_back(e);
  std::vector<std::vector<int>> faster(edges.shipments.size());
  for (uint32_t e = 0; e < edges.shipments.size(); ++e) {
    for (const uint32_t other : into[edges.shipments[e].to]) {
      if (edges.shipments[other].rate >= kMuchSlower * edges.shipments[e].rate)
        faster[e].push_back(edges.shipments[other].from);
    }
  }
  return faster;
}

/// Chooses what goes over which link when.
class Match {
 public:
  Match(const Problem& edges, std::vector<Tail> links, const std::vector<int64_t>& ready_ns,
        uint64_t seed)
      : edges_(edges),
        servers_(edges.servers),
        messages_(static_cast<size_t>(edges.servers) * edges.parts),
        words_((messages_ + 63) / 64),
        links_(std::move(links)),
        has_(servers_ * words_),
        promised_(servers_ * words_),
        brought_(servers_ * messages_, kNone),
        copies_(messages_, 1),
        bytes_(messages_),
        from_(servers_),
        much_faster_(much_faster(edges)),
        waits_(edges.shipments.size(), 1),
        random_(seed) {
    for (uint32_t e = 0; e < edges.shipments.size(); ++e) {
      from_[edges.shipments[e].from].push_back(e);
    }
    for (int m = 0; m < static_cast<int>(messages_); ++m) {
      const int origin = m / edges.parts;
      bytes_[m] = bytes_of(edges, m);
      set(promised_, origin, m);
      arrivals_.push({ready_ns[origin], origin, m});
    }
  }

  /// All that goes, by start.
  const std::vector<MatchedCopy>& run() {
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

  /// Of what the sender has and the receiver lacks what fewest have; of these any. Not what
  /// somebody has, or is about to have, who brings it there much faster.
  int choose(uint32_t e) {
    const Shipment& edge = edges_.shipments[e];
    const uint64_t* mine = has_.data() + edge.from * words_;
    const uint64_t* theirs = promised_.data() + edge.to * words_;
    int best = -1, least = INT32_MAX, alike = 0;
    for (size_t w = 0; w < words_; ++w) {
      uint64_t open = mine[w] & ~theirs[w];
      if (!much_faster_.empty()) {
        for (const int other : much_faster_[e]) open &= ~promised_[other * words_ + w];
      }
      for (uint64_t left = open; left != 0; left &= left - 1) {
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
    const int message = choose(e);
    if (message < 0) {
      waits_[e] = 1;
      return;
    }
    const uint32_t before = brought_[edge.from * messages_ + message];
    double rate = edge.rate;
    if (before != kNone && !edges_.by_wholes) rate = std::min(rate, rates_[before]);
    const int64_t length = duration_ns(bytes_[message], rate);
    const std::span<const Hop> route = edges_.route(e, path_);
    const int64_t start = fit_way(links_, route, at_ns, length);
    if (start > at_ns) return offer(e, start);
    for (const Hop& hop : route) {
      links_[hop.link].take(start + hop.before_ns, length, edges_.links[hop.link].units_of(rate));
    }
    const auto index = static_cast<uint32_t>(sent_.size());
    sent_.push_back({e, message, start, start + edge.latency_ns + length, before});
    rates_.push_back(rate);
    time_ns_ = std::max(time_ns_, sent_.back().end_ns);
    brought_[edge.to * messages_ + message] = index;
    set(promised_, edge.to, message);
    ++copies_[message];
    const uint64_t piece = std::min(bytes_[message], edges_.piece_bytes);
    arrivals_.push({start + edge.latency_ns + duration_ns(piece, rate), edge.to, message});
    offer(e, start + length);
  }

  const Problem& edges_;
  const int servers_;
  const size_t messages_;
  const size_t words_;  ///< of a set of messages
  std::vector<Tail> links_;
  Bits has_, promised_;            ///< by server: messages that are there, or there or under way
  std::vector<uint32_t> brought_;  ///< by server and message: what brings it
  std::vector<int> copies_;        ///< by message
  std::vector<uint64_t> bytes_;    ///< by message
  std::vector<std::vector<uint32_t>> from_;          ///< edges by server
  const std::vector<std::vector<int>> much_faster_;  ///< empty: no edge is much slower than others
  std::vector<char> waits_;  ///< by edge: its sender has nothing for its receiver
  std::priority_queue<Arrival> arrivals_;
  std::priority_queue<Free> free_;
  std::vector<MatchedCopy> sent_;
  std::vector<double> rates_;  ///< of what is sent
  int64_t time_ns_ = 0;
  std::mt19937_64 random_;
  Path path_;
};

}  // namespace

/// Of an origin times the parts and a part.
uint64_t bytes_of(const Problem& problem, int message) {
  const int origin = message / problem.parts;
  return cut_bytes(message_bytes(problem.inputs, origin, origin),
                   static_cast<uint32_t>(problem.parts),
                   static_cast<uint32_t>(message % problem.parts), 1);
}

std::vector<Tail> all_free(const Problem& problem) {
  std::vector<Tail> links;
  links.reserve(problem.links.size());
  for (const LinkUse& use : problem.links) links.emplace_back(std::max(1, use.units));
  return links;
}

std::vector<MatchedCopy> match_messages(const Problem& edges, const std::vector<Tail>& links,
                                        const std::vector<int64_t>& ready_ns, int64_t bound_ns) {
  std::vector<MatchedCopy> best;
  int64_t least_ns = INT64_MAX;
  size_t chosen = 0;
  for (int seed = 0; seed < kMostSeeds && chosen < kMostChosen; ++seed) {
    Match match(edges, links, ready_ns, edges.inputs.seed + static_cast<uint64_t>(seed));
    const std::vector<MatchedCopy>& sent = match.run();
    chosen += sent.size();
    if (match.time_ns() >= least_ns) continue;
    least_ns = match.time_ns();
    best = sent;
    if (static_cast<double>(least_ns) <= kNear * static_cast<double>(bound_ns)) break;
  }
  return best;
}

}  // namespace ibcoll::contention_free
