#include "engine/planner/contention_free/queue_up.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "engine/planner/contention_free/link_calendar.h"

namespace ibcoll::contention_free {

void queue_up(const Problem& problem, const LinkGroups& groups, Plan& plan) {
  const auto count = static_cast<uint32_t>(plan.transfers.size());
  Path path;
  std::vector<LinkCalendar> calendars;
  for (const LinkUse& use : problem.links) calendars.emplace_back(use.units, 0);
  std::vector<uint32_t> waits(count, 0);
  std::vector<int64_t> ready(count, 0);
  std::vector<std::vector<uint32_t>> followers(count);
  const Sums sums(plan.collective, plan.servers);
  std::vector<std::vector<uint32_t>> into(sums.count());
  const auto edge = [&](uint32_t before, uint32_t after) {
    ++waits[after];
    followers[before].push_back(after);
  };
  for (const Token& token : plan.tokens) edge(token.after, token.before);
  for (uint32_t i = 0; i < count; ++i) {
    const Transfer& t = plan.transfers[i];
    if (const size_t sum = sums.awaited_by(t); sum != Sums::kNone) {
      for (const uint32_t before : into[sum]) edge(before, i);
    } else if (t.forwards != kNone) {
      edge(t.forwards, i);
    }
    if (const size_t sum = sums.fed_by(t); sum != Sums::kNone) into[sum].push_back(i);
  }
  using Ready = std::pair<int64_t, uint32_t>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> heap;
  for (uint32_t i = 0; i < count; ++i) {
    if (waits[i] == 0) heap.push({0, i});
  }
  plan.time_ns = 0;
  while (!heap.empty()) {
    const auto [at, i] = heap.top();
    heap.pop();
    Transfer& t = plan.transfers[i];
    const int64_t length = duration_ns(t);
    problem.walk(t.from, t.to, path);
    int64_t start = at;
    for (bool moved = true; moved;) {
      moved = false;
      for (const Hop& hop : path.hops) {
        if (!groups.small(hop.link)) continue;
        const int need = problem.links[hop.link].units_of(t.rate);
        const int64_t free = calendars[hop.link].fit(start + hop.before_ns, length, need);
        moved = moved || free > start + hop.before_ns;
        start = free - hop.before_ns;
      }
    }
    for (const Hop& hop : path.hops) {
      if (!groups.small(hop.link)) continue;
      calendars[hop.link].take(start + hop.before_ns, length,
                               problem.links[hop.link].units_of(t.rate));
    }
    t.start_ns = start;
    t.end_ns = start + path.latency_ns + length;
    plan.time_ns = std::max(plan.time_ns, t.end_ns);
    for (const uint32_t next : followers[i]) {
      const Transfer& n = plan.transfers[next];
      // By a token, at full arrival; of what is forwarded, by the first piece.
      const size_t sum = sums.awaited_by(n);
      const bool fed = sum != Sums::kNone ? sum == sums.fed_by(t) : n.forwards == i;
      const int64_t told =
          n.from == t.from ? start + length : t.end_ns + groups.latency_ns(t.to, n.from);
      ready[next] = std::max(ready[next], fed ? first_piece_ns(plan, t) : told);
      if (--waits[next] == 0) heap.push({ready[next], next});
    }
  }
}

}  // namespace ibcoll::contention_free
