#include "engine/planner/contention_free/eager.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "engine/planner/contention_free/link_calendar.h"

namespace ibcoll::contention_free {

namespace {

class Eager {
 public:
  explicit Eager(const Problem& problem) : problem_(problem) {
    calendars_.reserve(problem.links.size());
    for (const LinkUse& use : problem.links) calendars_.emplace_back(use.units, use.shortest_ns);
    find_followers();
  }

  Timing run() {
    const auto count = static_cast<uint32_t>(problem_.shipments.size());
    Timing timing;
    timing.start_ns.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      if (waits_[i] == 0) push(i, 0);
    }
    while (!heap_.empty()) {
      const Entry top = heap_.top();
      heap_.pop();
      const Shipment& shipment = problem_.shipments[top.shipment];
      const int64_t start = fit(top.shipment, top.start_ns);
      if (start > top.start_ns) {  // links have been taken since
        push(top.shipment, start);
        continue;
      }
      for (const Hop& hop : problem_.route(top.shipment, path_)) {
        calendars_[hop.link].take(start + hop.before_ns, shipment.duration_ns, hop.units);
      }
      timing.start_ns[top.shipment] = start;
      timing.time_ns = std::max(timing.time_ns, start + shipment.latency_ns + shipment.duration_ns);
      const int64_t piece = first_piece_ns(problem_, shipment, start, shipment.latency_ns);
      for (const uint32_t next : followers_[top.shipment]) {
        ready_[next] = std::max(ready_[next], piece);
        if (--waits_[next] == 0) push(next, fit(next, ready_[next]));
      }
    }
    return timing;
  }

 private:
  struct Entry {
    int64_t start_ns;
    int32_t height;
    uint32_t shipment;
    bool operator<(const Entry& other) const {  // the top is the largest
      return std::tuple(-start_ns, height, ~shipment) <
             std::tuple(-other.start_ns, other.height, ~other.shipment);
    }
  };

  /// Who waits for whom, and how long a chain depends on each.
  void find_followers() {
    const auto count = static_cast<uint32_t>(problem_.shipments.size());
    followers_.resize(count);
    waits_.assign(count, 0);
    ready_.assign(count, 0);
    height_.assign(count, 0);
    const Sums sums(problem_.inputs.collective, problem_.servers);
    std::vector<std::vector<uint32_t>> into(sums.count());
    for (uint32_t i = 0; i < count; ++i) {
      const Shipment& shipment = problem_.shipments[i];
      const auto follow = [&](uint32_t before) {
        followers_[before].push_back(i);
        ++waits_[i];
      };
      if (const size_t sum = sums.awaited_by(shipment); sum != Sums::kNone) {
        for (const uint32_t before : into[sum]) follow(before);
      } else if (shipment.forwards != kNone) {
        follow(shipment.forwards);
      }
      if (const size_t sum = sums.fed_by(shipment); sum != Sums::kNone) into[sum].push_back(i);
    }
    for (uint32_t i = count; i-- > 0;) {  // what follows stands behind
      for (const uint32_t next : followers_[i]) {
        height_[i] = std::max(height_[i], height_[next] + 1);
      }
    }
  }

  void push(uint32_t shipment, int64_t start_ns) {
    heap_.push({start_ns, height_[shipment], shipment});
  }

  int64_t fit(uint32_t index, int64_t begin) {
    const Shipment& shipment = problem_.shipments[index];
    return fit_way(calendars_, problem_.route(index, path_), begin, shipment.duration_ns);
  }

  const Problem& problem_;
  std::vector<LinkCalendar> calendars_;
  std::vector<std::vector<uint32_t>> followers_;
  std::vector<uint32_t> waits_;
  std::vector<int64_t> ready_;
  std::vector<int32_t> height_;
  std::priority_queue<Entry> heap_;
  Path path_;
};

}  // namespace

Timing place_eagerly(const Problem& problem) { return Eager(problem).run(); }

}  // namespace ibcoll::contention_free
