#pragma once
/// The link groups of a plan in the making: which there are, and what each did last.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/planner/contention_free/grouped.h"
#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// A group of a link.
struct GroupName {
  int link, index;
};

/// A transfer that might be added: when it would go.
struct Leg {
  int from = 0, to = 0;
  double rate = 0;
  int64_t duration_ns = 0, latency_ns = 0;
  int64_t start_ns = 0;
  int64_t departed_ns = 0;  ///< the last byte has left `from`; by group times for kThesis
  bool fits = true;         ///< in the groups that there are
  std::vector<GroupName> groups;

  int64_t end_ns() const { return start_ns + latency_ns + duration_ns; }
  int64_t arrived_ns() const { return departed_ns + latency_ns; }
};

class LinkGroups {
 public:
  /// `transfers`: those planned so far, which this refers to by index.
  /// `relay`: messages may pass links that no shipment does.
  LinkGroups(const Problem& problem, Grouping grouping, bool relay,
             const std::vector<Transfer>& transfers);

  /// The leg that would take a message from a server to another after all that its groups have;
  /// `feeder` brings it there, if it is not there from the beginning; `ready_ns`: not earlier.
  Leg leg(int from, int to, uint64_t bytes, const Leg* feeder, int64_t ready_ns);
  /// Notes that transfer `index` was made from this leg. Calls `wait(before)` for those that it
  /// comes after.
  template <class Wait>
  void add(const Leg& leg, uint32_t index, Wait&& wait) {
    for (const GroupName& name : leg.groups) {
      Group& group = links_[name.link].groups[name.index];
      if (group.last != Transfer::kNone) wait(group.last);
      group.time_ns += sync_ns(group.last, leg.from) + leg.latency_ns + leg.duration_ns;
      group.last = index;
    }
  }

  /// The transfer that a group had last; kNone before the first.
  uint32_t last(const GroupName& name) const { return links_[name.link].groups[name.index].last; }
  /// What it costs to tell `server` that a transfer is over.
  int64_t sync_ns(uint32_t transfer, int server) const {
    if (transfer == Transfer::kNone || transfers_[transfer].from == server) return 0;
    return latency_ns(transfers_[transfer].to, server);
  }
  int64_t latency_ns(int from, int to) const {
    return latency_[static_cast<size_t>(from) * servers_ + to];
  }
  /// The thesis's group of a server's transfers on a link, made if there is none yet; always 0 for
  /// kFixed.
  int group_of(int link, int server, double entry_bandwidth);
  /// Groups in use, of all links.
  int64_t count() const;
  /// Whether all that passes the link is less than what is under way on it.
  bool small(int link) const { return links_[link].small; }

 private:
  struct Group {
    uint32_t last = Transfer::kNone;
    int64_t time_ns = 0;  ///< costs and syncs so far (definition 5)
  };
  struct LinkState {
    std::vector<Group> groups;
    std::unordered_map<int, int> of_source;
    double spare = 0;
    double widest = 0;  ///< entry bandwidth of group 0, which those that don't fit join
    bool small = false;
  };
  int64_t free_ns(const Group& group, int server) const;
  void choose(const Hop& hop, double entry_bandwidth, Leg& leg);

  const Problem& problem_;
  const Grouping grouping_;
  const std::vector<Transfer>& transfers_;
  size_t servers_;
  std::vector<int64_t> latency_;  ///< by pair of servers
  std::vector<LinkState> links_;
  Path path_;
};

}  // namespace ibcoll::contention_free
