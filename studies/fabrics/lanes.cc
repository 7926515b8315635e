#include "studies/fabrics/lanes.h"

#include <numeric>

namespace ibcoll::topology {

uint32_t LaneAssigner::assign(std::span<const uint32_t> links) {
  for (uint32_t lane = 0;; ++lane) {
    if (lane == lanes_.size()) {
      Lane& fresh = lanes_.emplace_back();
      fresh.place.resize(links_);
      std::iota(fresh.place.begin(), fresh.place.end(), 0);
      fresh.after.resize(links_);
      fresh.before.resize(links_);
      seen_.resize(links_);
    }
    if (try_route(lanes_[lane], links)) return lane;
  }
}

/// Adds the dependencies of a route, or none if one of them would close a cycle. A route that
/// takes no link twice always fits an empty lane.
bool LaneAssigner::try_route(Lane& lane, std::span<const uint32_t> links) {
  added_.clear();
  for (uint32_t i = 0; i + 1 < links.size(); ++i) {
    const std::vector<uint32_t>& after = lane.after[links[i]];  // no more than a switch has ports
    if (std::find(after.begin(), after.end(), links[i + 1]) != after.end()) continue;
    if (add(lane, links[i], links[i + 1])) {
      added_.push_back(i);
      continue;
    }
    for (; !added_.empty(); added_.pop_back()) {
      const uint32_t from = links[added_.back()], to = links[added_.back() + 1];
      lane.after[from].pop_back();
      lane.before[to].pop_back();
    }
    return false;
  }
  return true;
}

/// Adds one dependency and mends the order; false if it closes a cycle.
bool LaneAssigner::add(Lane& lane, uint32_t from, uint32_t to) {
  const uint32_t low = lane.place[to], high = lane.place[from];
  if (low < high) {
    // All that comes after `to` and not after `from` in the order.
    ahead_.clear();
    stack_.assign(1, to);
    bool cycle = false;
    while (!stack_.empty() && !cycle) {
      const uint32_t link = stack_.back();
      stack_.pop_back();
      if (seen_[link] != 0) continue;
      seen_[link] = 1;
      ahead_.push_back(link);
      for (const uint32_t next : lane.after[link]) {
        if (next == from) cycle = true;
        if (lane.place[next] < high) stack_.push_back(next);
      }
    }
    for (const uint32_t link : ahead_) seen_[link] = 0;
    if (cycle) return false;
    // All that comes before `from` and not before `to`; the places of both, those before first.
    behind_.clear();
    stack_.assign(1, from);
    while (!stack_.empty()) {
      const uint32_t link = stack_.back();
      stack_.pop_back();
      if (seen_[link] != 0) continue;
      seen_[link] = 1;
      behind_.push_back(link);
      for (const uint32_t next : lane.before[link]) {
        if (lane.place[next] > low) stack_.push_back(next);
      }
    }
    for (const uint32_t link : behind_) seen_[link] = 0;
    const auto by_place = [&](uint32_t a, uint32_t b) { return lane.place[a] < lane.place[b]; };
    std::sort(ahead_.begin(), ahead_.end(), by_place);
    std::sort(behind_.begin(), behind_.end(), by_place);
    behind_.insert(behind_.end(), ahead_.begin(), ahead_.end());
    places_.clear();
    for (const uint32_t link : behind_) places_.push_back(lane.place[link]);
    std::sort(places_.begin(), places_.end());
    for (size_t i = 0; i < behind_.size(); ++i) lane.place[behind_[i]] = places_[i];
  } else if (from == to) {
    return false;
  }
  lane.after[from].push_back(to);
  lane.before[to].push_back(from);
  return true;
}

}  // namespace ibcoll::topology
