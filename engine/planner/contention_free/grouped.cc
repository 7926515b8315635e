#include "engine/planner/contention_free/grouped.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <random>
#include <tuple>

#include "engine/planner/contention_free/link_groups.h"
#include "engine/planner/contention_free/plan_times.h"
#include "engine/planner/contention_free/queue_up.h"

namespace ibcoll::contention_free {

namespace {

/// How often a transfer may be split, one inside the other: more costs traffic and gains little.
constexpr int kMostSplits = 2;
/// Of larger plans only one, or it would take too long.
constexpr size_t kFewJobs = 512;

class GroupPlanner {
 public:
  GroupPlanner(const Problem& problem, Grouping grouping, bool relay)
      : problem_(problem),
        grouping_(grouping),
        relay_(relay),
        policy_(problem.inputs.policy),
        splits_(problem.shipments.size() <= kFewJobs ? kMostSplits : 1),
        groups_(problem, grouping, relay, plan_.transfers),
        random_(problem.inputs.seed) {}

  Plan run() {
    plan_.collective = problem_.inputs.collective;
    plan_.servers = problem_.servers;
    plan_.root = problem_.inputs.root;
    plan_.piece_bytes = problem_.piece_bytes;
    plan_.transfers.reserve(problem_.shipments.size());
    make_queues();  // puts the widest first on each link
    const bool chained =
        std::any_of(problem_.shipments.begin(), problem_.shipments.end(),
                    [](const Shipment& shipment) { return shipment.forwards != kNone; });
    // Data for many is not relayed: who gets it on its way may get it straight, too.
    if (chained || spreads(problem_.inputs.collective)) {
      schedule_in_order();
    } else {
      schedule();
    }
    finish();
    return std::move(plan_);
  }

 private:
  /// The shipments of a group that are not scheduled yet. For kFixed: of a link, whose groups are
  /// chosen late.
  struct Queue {
    std::vector<uint32_t> shipments;
    double left = 0;  ///< their costs
    double parts = 1;
    int link = 0, index = 0;
  };

  int64_t cost_ns(const Shipment& shipment) const {
    return groups_.latency_ns(shipment.from, shipment.to) + shipment.duration_ns;
  }

  /// Groups all shipments, on each link those that enter it fastest first.
  void make_queues() {
    struct Entry {
      int link;
      double bandwidth;
      uint32_t shipment;
    };
    std::vector<Entry> entries;
    Path path;
    for (uint32_t i = 0; i < problem_.shipments.size(); ++i) {
      problem_.walk(problem_.shipments[i].from, problem_.shipments[i].to, path);
      double bandwidth = problem_.fabric.link(path.hops.front().link).bandwidth;
      for (const Hop& hop : path.hops) {
        entries.push_back({hop.link, bandwidth, i});
        bandwidth = problem_.fabric.link(hop.link).bandwidth;
      }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tuple(a.link, -a.bandwidth, a.shipment) <
             std::tuple(b.link, -b.bandwidth, b.shipment);
    });
    queues_of_.resize(problem_.shipments.size());
    std::vector<int> here;  // queue of each group of the link
    int link = -1;
    for (const Entry& entry : entries) {
      if (entry.link != link) here.clear();
      link = entry.link;
      const Shipment& shipment = problem_.shipments[entry.shipment];
      const int group = groups_.group_of(link, shipment.from, entry.bandwidth);
      if (static_cast<int>(here.size()) <= group) here.resize(group + 1, -1);
      if (here[group] < 0) {
        here[group] = static_cast<int>(queues_.size());
        queues_.emplace_back();
        queues_.back().link = link;
        queues_.back().index = group;
        if (grouping_ == Grouping::kFixed) queues_.back().parts = problem_.links[link].slots;
      }
      Queue& queue = queues_[here[group]];
      queue.shipments.push_back(entry.shipment);
      queue.left += static_cast<double>(cost_ns(shipment));
      queues_of_[entry.shipment].push_back(here[group]);
    }
    for (Queue& queue : queues_) std::sort(queue.shipments.begin(), queue.shipments.end());
  }

  /// Select group, select task, until none is left.
  void schedule() {
    scheduled_.assign(problem_.shipments.size(), 0);
    using Rank = std::pair<double, int>;  // remaining cost, the lower number first
    std::priority_queue<Rank> heap;
    const auto rank = [&](int q) { return Rank{queues_[q].left / queues_[q].parts, -q}; };
    for (int q = 0; q < static_cast<int>(queues_.size()); ++q) heap.push(rank(q));
    while (!heap.empty()) {
      const Rank top = heap.top();
      heap.pop();
      const int q = -top.second;
      Queue& queue = queues_[q];
      const auto done = [&](uint32_t shipment) { return scheduled_[shipment] != 0; };
      queue.shipments.erase(std::remove_if(queue.shipments.begin(), queue.shipments.end(), done),
                            queue.shipments.end());
      if (queue.shipments.empty()) continue;
      if (rank(q).first < top.first) {  // others have taken from it
        heap.push(rank(q));
        continue;
      }
      const uint32_t shipment = select(queue);
      scheduled_[shipment] = 1;
      for (const int other : queues_of_[shipment]) {
        queues_[other].left -= static_cast<double>(cost_ns(problem_.shipments[shipment]));
      }
      place(problem_.shipments[shipment]);
      heap.push(rank(q));
    }
  }

  /// The shipment of a group that the policy says. Ties: kThesis the first, kFixed the one that can
  /// start first.
  uint32_t select(const Queue& queue) {
    if (policy_ == Policy::kRandom) return queue.shipments[random_() % queue.shipments.size()];
    uint32_t best = kNone;
    int64_t least = 0, earliest = -1;
    for (const uint32_t index : queue.shipments) {
      const Shipment& shipment = problem_.shipments[index];
      const bool by_cost = policy_ == Policy::kMaxCost || policy_ == Policy::kMinCost;
      int64_t value = by_cost ? cost_ns(shipment) : sync_ns(queue, shipment.from);
      if (policy_ == Policy::kMaxCost || policy_ == Policy::kMaxSync) value = -value;
      if (best != kNone && value > least) continue;
      if (best == kNone || value < least) {
        best = index;
        least = value;
        earliest = -1;
        continue;
      }
      if (grouping_ == Grouping::kThesis) continue;
      if (earliest < 0) earliest = start_ns(problem_.shipments[best]);
      if (earliest == 0) continue;
      const int64_t start = start_ns(shipment);
      if (start >= earliest) continue;
      best = index;
      earliest = start;
    }
    return best;
  }

  int64_t start_ns(const Shipment& shipment) {
    return groups_.leg(shipment.from, shipment.to, shipment.bytes, nullptr, 0).start_ns;
  }

  int64_t sync_ns(const Queue& queue, int server) const {
    if (grouping_ == Grouping::kThesis) {
      return groups_.sync_ns(groups_.last({queue.link, queue.index}), server);
    }
    int64_t least = INT64_MAX;
    for (int slot = 0; slot < problem_.links[queue.link].slots; ++slot) {
      least = std::min(least, groups_.sync_ns(groups_.last({queue.link, slot}), server));
    }
    return least;
  }

  using Way = std::vector<int>;  ///< servers

  /// Ways from one server to another: straight, and through the ends of transfers that groups of
  /// the straight way had last (W -> X -> Y -> Z of section 5.5.2), each part split again.
  void find_ways(const Shipment& shipment, int from, int to, int splits, std::vector<Way>& ways) {
    ways.push_back({from, to});
    if (splits == 0) return;
    const Leg straight = groups_.leg(from, to, shipment.bytes, nullptr, 0);
    std::vector<uint32_t> tried;
    for (const GroupName& name : straight.groups) {
      const uint32_t last = groups_.last(name);
      if (last == kNone || std::find(tried.begin(), tried.end(), last) != tried.end()) continue;
      tried.push_back(last);
      const int x = plan_.transfers[last].from, y = plan_.transfers[last].to;
      if (x == from || y == from || x == to) continue;
      std::vector<Way> to_x, from_y;
      find_ways(shipment, from, x, splits - 1, to_x);
      if (y == to) {
        from_y.push_back({y});
      } else {
        find_ways(shipment, y, to, splits - 1, from_y);
      }
      for (const Way& head : to_x) {
        for (const Way& tail : from_y) {
          Way way = head;
          way.insert(way.end(), tail.begin(), tail.end());
          ways.push_back(std::move(way));
        }
      }
    }
  }

  /// No server and no link twice.
  bool simple(const Way& way) {
    ++round_;
    if (link_round_.empty()) link_round_.assign(problem_.fabric.links(), 0);
    for (size_t i = 0; i < way.size(); ++i) {
      if (std::count(way.begin(), way.end(), way[i]) > 1) return false;
    }
    bool once = true;
    for (size_t i = 1; i < way.size() && once; ++i) {
      problem_.walk(way[i - 1], way[i], path_);
      for (const Hop& hop : path_.hops) {
        once = once && link_round_[hop.link] != round_;
        link_round_[hop.link] = round_;
      }
    }
    return once;
  }

  std::vector<Leg> legs(const Shipment& shipment, const Way& way) {
    std::vector<Leg> legs;
    for (size_t i = 1; i < way.size(); ++i) {
      legs.push_back(groups_.leg(way[i - 1], way[i], shipment.bytes,
                                 legs.empty() ? nullptr : &legs.back(), 0));
    }
    return legs;
  }

  /// Schedules a shipment, split where that lets its last byte go (kThesis) or arrive (kFixed)
  /// earlier.
  void place(const Shipment& shipment) {
    std::vector<Leg> best = legs(shipment, {shipment.from, shipment.to});
    if (relay_) {
      const auto value = [&](const Leg& last) {
        return grouping_ == Grouping::kThesis ? last.departed_ns : last.end_ns();
      };
      std::vector<Way> ways;
      find_ways(shipment, shipment.from, shipment.to, splits_, ways);
      for (const Way& way : ways) {
        if (way.size() == 2 || !simple(way)) continue;
        std::vector<Leg> split = legs(shipment, way);
        const bool fits =
            std::all_of(split.begin(), split.end(), [](const Leg& leg) { return leg.fits; });
        if (fits && value(split.back()) < value(best.back())) best = std::move(split);
      }
    }
    uint32_t before = kNone;
    for (const Leg& leg : best) {
      before = add(shipment, leg, before);
      if (&leg != &best.front()) plan_.relayed_bytes += shipment.bytes;
    }
  }

  uint32_t add(const Shipment& shipment, const Leg& leg, uint32_t forwards) {
    const auto index = static_cast<uint32_t>(plan_.transfers.size());
    plan_.transfers.push_back({leg.from, leg.to, shipment.origin, shipment.target, shipment.bytes,
                               leg.start_ns, leg.end_ns(), leg.rate, forwards});
    groups_.add(leg, index, [&](uint32_t before) {
      const bool same = plan_.transfers[before].from == leg.from;
      plan_.tokens.push_back({before, index, before, same, 0, 0});
    });
    return index;
  }

  /// Shipments that forward others, in an order in which what they forward stands before them.
  void schedule_in_order() {
    const Sums sums(problem_.inputs.collective, problem_.servers);
    std::vector<int64_t> ready(sums.count());
    std::vector<Leg> made;
    for (const Shipment& shipment : problem_.shipments) {
      const Leg* feeder = shipment.forwards == kNone ? nullptr : &made[shipment.forwards];
      const size_t awaited = sums.awaited_by(shipment), fed = sums.fed_by(shipment);
      Leg leg = groups_.leg(shipment.from, shipment.to, shipment.bytes, feeder,
                            awaited == Sums::kNone ? 0 : ready[awaited]);
      leg.rate = shipment.rate;
      leg.duration_ns = shipment.duration_ns;
      add(shipment, leg, shipment.forwards);
      if (feeder != nullptr && shipment.origin != kEveryone && shipment.target != kEveryone) {
        plan_.relayed_bytes += shipment.bytes;
      }
      if (fed != Sums::kNone) {
        const int64_t piece = first_piece_ns(problem_, shipment, leg.start_ns, leg.latency_ns);
        ready[fed] = std::max(ready[fed], piece);
      }
      made.push_back(std::move(leg));
    }
  }

  void finish() {
    std::sort(plan_.tokens.begin(), plan_.tokens.end(), [](const Token& a, const Token& b) {
      return std::pair(a.before, a.after) < std::pair(b.before, b.after);
    });
    const auto same = [](const Token& a, const Token& b) {
      return a.before == b.before && a.after == b.after;
    };
    plan_.tokens.erase(std::unique(plan_.tokens.begin(), plan_.tokens.end(), same),
                       plan_.tokens.end());
    plan_.groups = groups_.count();
    bool small = false;
    for (int link = 0; link < problem_.fabric.links(); ++link) {
      small = small || (groups_.small(link) && problem_.links[link].shipments > 1);
    }
    if (small) {
      queue_up(problem_, groups_, plan_);
    } else {
      retime(problem_, plan_);
    }
    sort_plan(plan_);
    plan_.relay_buffer_bytes = relay_buffer_bytes(plan_);
  }

  const Problem& problem_;
  const Grouping grouping_;
  const bool relay_;
  const Policy policy_;
  const int splits_;
  Plan plan_;
  LinkGroups groups_;
  std::mt19937_64 random_;
  std::vector<Queue> queues_;
  std::vector<std::vector<int>> queues_of_;  ///< by shipment
  std::vector<char> scheduled_;
  std::vector<uint32_t> link_round_;
  uint32_t round_ = 0;
  Path path_;
};

}  // namespace

Plan plan_by_groups(const Problem& problem, Grouping grouping, bool relay) {
  return GroupPlanner(problem, grouping, relay).run();
}

}  // namespace ibcoll::contention_free
