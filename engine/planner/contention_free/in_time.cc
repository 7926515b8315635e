#include "engine/planner/contention_free/in_time.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "engine/planner/contention_free/link_calendar.h"

namespace ibcoll::contention_free {

namespace {

/// What each sender has left, and the links with what they have left to carry.
class InTime {
 public:
  explicit InTime(const Problem& problem) : problem_(problem), left_(problem.servers) {
    for (const LinkUse& use : problem.links) {
      tails_.emplace_back(use.units);
      busy_ns_.push_back(use.busy_ns);
    }
    for (const uint32_t index : order_shipments(problem, Order::kShift)) {
      left_[problem.shipments[index].from].push_back(index);
    }
  }

  Timing run() {
    Timing timing;
    timing.start_ns.resize(problem_.shipments.size());
    // When they are free; those with the most left first.
    using Free = std::tuple<int64_t, double, int>;
    std::priority_queue<Free, std::vector<Free>, std::greater<>> senders;
    for (const int server : problem_.by_position) {
      senders.emplace(0, 0, problem_.position[server]);
    }
    while (!senders.empty()) {
      const auto [now, more, position] = senders.top();
      senders.pop();
      std::vector<uint32_t>& left = left_[problem_.by_position[position]];
      if (left.empty()) continue;
      const Candidate next = best_of(left, now);
      if (next.start_ns > now) {  // until then others may take its links, or leave better ones
        senders.emplace(next.start_ns, more, position);
        continue;
      }
      const uint32_t index = left[next.place];
      left.erase(left.begin() + static_cast<ptrdiff_t>(next.place));
      const Shipment& shipment = problem_.shipments[index];
      const std::span<const Hop> route = problem_.route(index, path_);
      for (const Hop& hop : route) {
        tails_[hop.link].take(now + hop.before_ns, shipment.duration_ns, hop.units);
        busy_ns_[hop.link] -= static_cast<double>(shipment.duration_ns) /
                              problem_.links[hop.link].slots_of(shipment.rate);
      }
      timing.start_ns[index] = now;
      timing.time_ns = std::max(timing.time_ns, now + shipment.latency_ns + shipment.duration_ns);
      senders.emplace(now + shipment.duration_ns, -busy_ns_[route.front().link], position);
    }
    return timing;
  }

 private:
  struct Candidate {
    int64_t start_ns = INT64_MAX;
    double busiest_ns = 0, receiver_ns = 0;  // that its links have left to carry
    size_t place = 0;
  };

  Candidate best_of(const std::vector<uint32_t>& left, int64_t now) {
    Candidate best;
    for (size_t place = 0; place < left.size(); ++place) {
      const std::span<const Hop> route = problem_.route(left[place], path_);
      Candidate candidate{fit_way(tails_, route, now, problem_.shipments[left[place]].duration_ns),
                          0, busy_ns_[route.back().link], place};
      if (candidate.start_ns > best.start_ns) continue;
      for (const Hop& hop : route) {
        candidate.busiest_ns = std::max(candidate.busiest_ns, busy_ns_[hop.link]);
      }
      if (candidate.start_ns < best.start_ns ||
          std::pair(candidate.busiest_ns, candidate.receiver_ns) >
              std::pair(best.busiest_ns, best.receiver_ns)) {
        best = candidate;
      }
    }
    return best;
  }

  const Problem& problem_;
  std::vector<std::vector<uint32_t>> left_;  // by sender
  std::vector<Tail> tails_;                  // by link
  std::vector<double> busy_ns_;              // by link: that it has left to carry
  Path path_;
};

}  // namespace

Timing place_in_time(const Problem& problem) { return InTime(problem).run(); }

}  // namespace ibcoll::contention_free
