#include "engine/planner/contention_free/list.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/planner/contention_free/eager.h"
#include "engine/planner/contention_free/in_time.h"
#include "engine/planner/contention_free/link_calendar.h"
#include "engine/planner/contention_free/phases.h"
#include "engine/planner/contention_free/rounds.h"

namespace ibcoll::contention_free {

namespace {

/// Up to so many shipments, two more orders are tried; up to fewer, all, and improved.
constexpr size_t kManyJobs = 70'000, kJobsForAllOrders = 5'000;
/// A plan this close to the bound is not improved on.
constexpr double kGoodEnough = 1.01;
/// With each order tried, so much more is good enough.
constexpr double kLessGood = 0.01;
/// Links with this part of the busiest link's load are busy too.
constexpr double kBusy = 0.9;
/// With this part of it they are in each other's way.
constexpr double kAlike = 0.8;

/// Positions from 0 to 2^32 - 1 that sort the shipments.
using Keys = std::vector<uint64_t>;

bool spreads(const Problem& problem) { return contention_free::spreads(problem.inputs.collective); }

int shift(const Problem& problem, const Shipment& shipment) {
  const int from = problem.position[shipment.from], to = problem.position[shipment.to];
  return to >= from ? to - from : to - from + problem.servers;
}

uint64_t shift_key(const Problem& problem, const Shipment& shipment) {
  return static_cast<uint64_t>(shift(problem, shipment)) << 16 |
         static_cast<uint64_t>(problem.position[shipment.from]);
}

/// Rounds of kShift in an order in which the busiest links have the same to carry all the time: the
/// round with the most for them of those left where they have had less than their average so far,
/// the one with the least where they have had more.
Keys even_keys(const Problem& problem) {
  double most = 1;
  for (const LinkUse& use : problem.links) most = std::max(most, use.busy_ns);
  std::vector<double> load(problem.servers);
  Path path;
  double all = 0;
  for (uint32_t i = 0; i < problem.shipments.size(); ++i) {
    const Shipment& shipment = problem.shipments[i];
    for (const Hop& hop : problem.route(i, path)) {
      if (problem.links[hop.link].busy_ns < kBusy * most) continue;
      load[shift(problem, shipment)] += static_cast<double>(shipment.duration_ns);
      all += static_cast<double>(shipment.duration_ns);
    }
  }
  std::vector<int> rounds(problem.servers - 1), turn(problem.servers);
  std::iota(rounds.begin(), rounds.end(), 1);
  std::stable_sort(rounds.begin(), rounds.end(), [&](int a, int b) { return load[a] < load[b]; });
  const double average = all / (problem.servers - 1);
  double had = 0;
  size_t low = 0, high = rounds.size();
  for (int i = 0; low < high; ++i) {
    const int round = had <= average * i ? rounds[--high] : rounds[low++];
    had += load[round];
    turn[round] = i;
  }
  Keys keys(problem.shipments.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const Shipment& shipment = problem.shipments[i];
    keys[i] =
        static_cast<uint64_t>(turn[shift(problem, shipment)]) << 32 | shift_key(problem, shipment);
  }
  return keys;
}

Keys busiest_keys(const Problem& problem) {
  double most = 1;
  for (const LinkUse& use : problem.links) most = std::max(most, use.busy_ns);
  Keys keys(problem.shipments.size());
  Path path;
  for (uint32_t i = 0; i < problem.shipments.size(); ++i) {
    const Shipment& shipment = problem.shipments[i];
    double busiest = 0;
    for (const Hop& hop : problem.route(i, path))
      busiest = std::max(busiest, problem.links[hop.link].busy_ns);
    const auto part = static_cast<uint64_t>(16 * (1 - busiest / most));
    keys[i] = part << 32 | shift_key(problem, shipment);
  }
  return keys;
}

Keys order_keys(const Problem& problem, Order order) {
  if (order == Order::kEven) return even_keys(problem);
  if (order == Order::kBusiest) return busiest_keys(problem);
  Keys keys(problem.shipments.size());
  int64_t longest = 1;
  for (const Shipment& shipment : problem.shipments)
    longest = std::max(longest, shipment.duration_ns);
  std::mt19937_64 random(problem.inputs.seed);
  for (size_t i = 0; i < keys.size(); ++i) {
    const Shipment& shipment = problem.shipments[i];
    uint64_t high = 0;
    if (order == Order::kLongest) {
      high = static_cast<uint64_t>(65535 - 65535.0 * static_cast<double>(shipment.duration_ns) /
                                               static_cast<double>(longest));
    } else if (order == Order::kNearest) {
      const auto far = static_cast<uint64_t>(problem.latency_ns(shipment.from, shipment.to));
      high = std::min<uint64_t>(far >> 4, UINT32_MAX);
      if (problem.inputs.collective == Collective::kScatter) high = UINT32_MAX - high;
    } else if (order == Order::kRandom) {
      high = random() >> 32;
    }
    keys[i] = high << 32 | shift_key(problem, shipment);
  }
  return keys;
}

}  // namespace

std::vector<uint32_t> order_shipments(const Problem& problem, Order order) {
  std::vector<uint32_t> shipments(problem.shipments.size());
  std::iota(shipments.begin(), shipments.end(), 0);
  bool chained = spreads(problem);
  for (size_t i = 0; i < problem.shipments.size() && !chained; ++i) {
    chained = problem.shipments[i].forwards != Transfer::kNone;
  }
  if (chained) return shipments;
  if (order == Order::kShift && is_alltoall(problem.inputs.collective) &&
      problem.shipments.size() ==
          static_cast<size_t>(problem.servers) * static_cast<size_t>(problem.servers - 1)) {
    // Every pair stands at a known index.
    size_t at = 0;
    for (int j = 1; j < problem.servers; ++j) {
      for (int i = 0; i < problem.servers; ++i) {
        const int from = problem.by_position[i];
        const int to =
            problem.by_position[i + j < problem.servers ? i + j : i + j - problem.servers];
        shipments[at++] = static_cast<uint32_t>(from * (problem.servers - 1) + to - (to > from));
      }
    }
    return shipments;
  }
  if (order == Order::kPhases) return phase_order(problem);
  if (order == Order::kRounds) return round_order(problem);
  const Keys keys = order_keys(problem, order);
  std::sort(shipments.begin(), shipments.end(),
            [&](uint32_t a, uint32_t b) { return std::pair(keys[a], a) < std::pair(keys[b], b); });
  return shipments;
}

namespace {

template <class LinkTimes>
Timing place_on(std::vector<LinkTimes>& links, const Problem& problem,
                const std::vector<uint32_t>& order, int64_t limit_ns) {
  Timing timing;
  timing.start_ns.resize(problem.shipments.size());
  const Sums sums(problem.inputs.collective, problem.servers);
  std::vector<int64_t> ready(sums.count());  // by sum: the first piece of all is there
  Path path;
  for (const uint32_t index : order) {
    const Shipment& shipment = problem.shipments[index];
    int64_t begin = 0;
    if (const size_t sum = sums.awaited_by(shipment); sum != Sums::kNone) {
      begin = ready[sum];
    } else if (shipment.forwards != Transfer::kNone) {
      const Shipment& before = problem.shipments[shipment.forwards];
      begin =
          first_piece_ns(problem, before, timing.start_ns[shipment.forwards], before.latency_ns);
    }
    const std::span<const Hop> route = problem.route(index, path);
    begin = fit_way(links, route, begin, shipment.duration_ns);
    for (const Hop& hop : route) {
      links[hop.link].take(begin + hop.before_ns, shipment.duration_ns, hop.units);
    }
    timing.start_ns[index] = begin;
    timing.time_ns = std::max(timing.time_ns, begin + shipment.latency_ns + shipment.duration_ns);
    if (timing.time_ns > limit_ns) {
      timing.time_ns = INT64_MAX;
      return timing;
    }
    if (const size_t sum = sums.fed_by(shipment); sum != Sums::kNone) {
      ready[sum] =
          std::max(ready[sum], first_piece_ns(problem, shipment, begin, shipment.latency_ns));
    }
  }
  return timing;
}

}  // namespace

Timing place_shipments(const Problem& problem, const std::vector<uint32_t>& order, Place place,
                       int64_t limit_ns) {
  if (place == Place::kInTurn) {
    std::vector<Tail> tails;
    tails.reserve(problem.links.size());
    for (const LinkUse& use : problem.links) tails.emplace_back(use.units);
    return place_on(tails, problem, order, limit_ns);
  }
  std::vector<LinkCalendar> calendars;
  calendars.reserve(problem.links.size());
  for (const LinkUse& use : problem.links) calendars.emplace_back(use.units, use.shortest_ns);
  return place_on(calendars, problem, order, limit_ns);
}

namespace {

/// Whether links that carry several shipments at once are what the time depends on.
enum class Wide : uint8_t { kNot, kBusiest, kAsBusyAsHosts };

Wide wide_links(const Problem& problem) {
  double one = 0, several = 0;  // of the busiest link that carries one at a time, or more
  for (const LinkUse& use : problem.links) {
    double& most = use.slots == 1 ? one : several;
    most = std::max(most, use.busy_ns);
  }
  if (several < kBusy * one) return Wide::kNot;
  return one < kAlike * several ? Wide::kBusiest : Wide::kAsBusyAsHosts;
}

/// Improves a timing by placing the shipments anew in the order in which they start, those that end
/// last first where they start alike, as long as that helps.
void improve(const Problem& problem, Timing& best, int64_t bound_ns) {
  std::vector<uint32_t> order(problem.shipments.size());
  std::iota(order.begin(), order.end(), 0);
  for (int round = 0; round < 3; ++round) {
    if (static_cast<double>(best.time_ns) <= kGoodEnough * static_cast<double>(bound_ns)) return;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return best.start_ns[a] < best.start_ns[b]; });
    Timing again = place_shipments(problem, order, Place::kInGaps, best.time_ns);
    if (again.time_ns >= best.time_ns) return;
    best = std::move(again);
  }
}

}  // namespace

Timing list_schedule(const Problem& problem, int64_t bound_ns) {
  Timing best;
  best.time_ns = INT64_MAX;
  double enough = kGoodEnough;
  const auto near = [&] {
    return static_cast<double>(best.time_ns) <= enough * static_cast<double>(bound_ns);
  };
  const auto take = [&](Timing timing) {
    if (timing.time_ns < best.time_ns) best = std::move(timing);
  };
  const auto attempt = [&](const std::vector<uint32_t>& shipments, Place place,
                           int64_t most_ns = INT64_MAX) {
    if (shipments.size() < problem.shipments.size()) return;  // there is no such order
    const int64_t limit = std::min(most_ns, best.time_ns - (best.time_ns < INT64_MAX));
    take(place_shipments(problem, shipments, place, limit));
  };
  const bool many = problem.shipments.size() > kManyJobs,
             few = problem.shipments.size() <= kJobsForAllOrders;
  const Wide wide = wide_links(problem);
  if (wide == Wide::kAsBusyAsHosts && !many && !spreads(problem)) {
    attempt(order_shipments(problem, Order::kPhases), Place::kInTurn);
    enough += kLessGood;
    if (near()) return best;
  }
  // In turn the order is that of the rounds whatever the figures are: the better plan where they
  // are wrong.
  const std::vector<uint32_t> rounds = order_shipments(problem, Order::kShift);
  if (!spreads(problem)) {
    // Of many shipments it takes too long to finish a plan that is not near.
    const auto near_ns = static_cast<int64_t>(enough * static_cast<double>(bound_ns));
    attempt(rounds, Place::kInTurn, many ? near_ns : INT64_MAX);
  }
  if (near()) return best;
  // Rounds know nothing of links between switches, and phases leave them idle between two.
  if (is_alltoall(problem.inputs.collective) && problem.is_tree && wide != Wide::kNot && !many) {
    take(place_in_time(problem));
    if (near()) return best;
  }
  // On a tree the others come about as near, and sooner.
  if (is_alltoall(problem.inputs.collective) && !problem.is_tree) {
    attempt(order_shipments(problem, Order::kRounds), Place::kInTurn);
    if (many && best.time_ns < INT64_MAX) return best;
    enough += kLessGood;
    if (near()) return best;
  }
  std::vector<Order> others;
  if (wide == Wide::kBusiest) others.push_back(Order::kEven);
  others.push_back(Order::kShift);
  if (!spreads(problem)) {
    if (!many) others.push_back(Order::kPhases);
    if (wide != Wide::kBusiest) others.push_back(Order::kEven);
    others.push_back(Order::kBusiest);
    if (few) others.insert(others.end(), {Order::kNearest, Order::kLongest, Order::kRandom});
  }
  for (const Order order : others) {
    attempt(order == Order::kShift ? rounds : order_shipments(problem, order), Place::kInGaps);
    if (near()) return best;
    enough += kLessGood;
  }
  if (few && spreads(problem)) take(place_eagerly(problem));
  if (few && !spreads(problem)) improve(problem, best, bound_ns);
  return best;
}

}  // namespace ibcoll::contention_free
