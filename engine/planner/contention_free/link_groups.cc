#include "engine/planner/contention_free/link_groups.h"

#include <algorithm>

namespace ibcoll::contention_free {

LinkGroups::LinkGroups(const Problem& problem, Grouping grouping, bool relay,
                       const std::vector<Transfer>& transfers)
    : problem_(problem),
      grouping_(grouping),
      transfers_(transfers),
      servers_(static_cast<size_t>(problem.servers)),
      latency_(servers_ * servers_),
      links_(problem.links.size()) {
  for (int a = 0; a < problem.servers; ++a) {
    for (int b = 0; b < problem.servers; ++b) {
      latency_[static_cast<size_t>(a) * servers_ + b] = problem.latency_ns(a, b);
    }
  }
  double all_bytes = 0;
  for (const Shipment& shipment : problem.shipments)
    all_bytes += static_cast<double>(shipment.bytes);
  for (size_t l = 0; l < links_.size(); ++l) {
    const topology::Link& link = problem.fabric.link(static_cast<int>(l));
    links_[l].spare = link.bandwidth;
    // Bytes below bandwidth times latency; no message passes a link twice, relayed or not.
    const double busy_ns = relay ? all_bytes * 1e9 / link.bandwidth : problem.links[l].busy_ns;
    links_[l].small =
        grouping == Grouping::kThesis && busy_ns < static_cast<double>(link.latency_ns);
    if (grouping == Grouping::kFixed) links_[l].groups.resize(problem.links[l].slots);
  }
}

int LinkGroups::group_of(int link, int server, double entry_bandwidth) {
  if (grouping_ == Grouping::kFixed) return 0;
  LinkState& state = links_[link];
  const auto known = state.of_source.find(server);
  if (known != state.of_source.end()) return known->second;
  int group = 0;
  if (state.small || state.groups.empty() || state.spare >= entry_bandwidth) {
    group = static_cast<int>(state.groups.size());
    if (group == 0) state.widest = entry_bandwidth;
    state.groups.emplace_back();
    state.spare -= entry_bandwidth;
  }
  state.of_source.emplace(server, group);
  return group;
}

int64_t LinkGroups::count() const {
  int64_t used = 0;
  for (const LinkState& state : links_) {
    used += std::count_if(state.groups.begin(), state.groups.end(),
                          [](const Group& group) { return group.last != Transfer::kNone; });
  }
  return used;
}

/// When the group's last transfer is known to be over at a server.
int64_t LinkGroups::free_ns(const Group& group, int server) const {
  if (group.last == Transfer::kNone) return 0;
  const Transfer& last = transfers_[group.last];
  if (last.from == server) return last.end_ns - latency_ns(last.from, last.to);
  return last.end_ns + latency_ns(last.to, server);
}

void LinkGroups::choose(const Hop& hop, double entry_bandwidth, Leg& leg) {
  if (grouping_ == Grouping::kThesis) {
    const int group = group_of(hop.link, leg.from, entry_bandwidth);
    const LinkState& state = links_[hop.link];
    leg.groups.push_back({hop.link, group});
    leg.fits = leg.fits && (group > 0 || state.small || leg.rate <= state.widest);
    return;
  }
  const std::vector<Group>& groups = links_[hop.link].groups;
  const LinkUse& use = problem_.links[hop.link];
  const int need = use.shipments == 0 ? 1 : use.slots_of(leg.rate);
  const size_t first = leg.groups.size();
  for (int n = 0; n < need; ++n) {
    int best = -1;
    for (int g = 0; g < static_cast<int>(groups.size()); ++g) {
      const bool taken =
          std::any_of(leg.groups.begin() + static_cast<ptrdiff_t>(first), leg.groups.end(),
                      [&](const GroupName& name) { return name.index == g; });
      if (taken) continue;
      if (best < 0 || free_ns(groups[g], leg.from) < free_ns(groups[best], leg.from)) best = g;
    }
    leg.groups.push_back({hop.link, best});
  }
}

Leg LinkGroups::leg(int from, int to, uint64_t bytes, const Leg* feeder, int64_t ready_ns) {
  problem_.walk(from, to, path_);
  Leg leg;
  leg.from = from;
  leg.to = to;
  leg.rate = feeder == nullptr ? path_.bandwidth : std::min(path_.bandwidth, feeder->rate);
  leg.duration_ns = duration_ns(bytes, leg.rate);
  leg.latency_ns = path_.latency_ns;
  leg.start_ns = ready_ns;
  double entry = problem_.fabric.link(path_.hops.front().link).bandwidth;
  for (const Hop& hop : path_.hops) {
    choose(hop, entry, leg);
    entry = problem_.fabric.link(hop.link).bandwidth;
  }
  int64_t time = 0, latest = -1;  // of the group furthest on
  for (const GroupName& name : leg.groups) {
    const Group& group = links_[name.link].groups[name.index];
    leg.start_ns = std::max(leg.start_ns, free_ns(group, from));
    if (group.time_ns <= latest) continue;
    latest = group.time_ns;
    time = group.time_ns + sync_ns(group.last, from);
  }
  if (feeder != nullptr) {
    const int64_t piece = duration_ns(std::min(bytes, problem_.piece_bytes), feeder->rate);
    leg.start_ns = std::max(leg.start_ns, feeder->start_ns + feeder->latency_ns + piece);
  }
  leg.departed_ns =
      grouping_ == Grouping::kThesis ? time + leg.duration_ns : leg.start_ns + leg.duration_ns;
  if (feeder != nullptr) leg.departed_ns = std::max(leg.departed_ns, feeder->arrived_ns());
  return leg;
}

}  // namespace ibcoll::contention_free
