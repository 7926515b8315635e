#pragma once
/// Virtual lanes that keep a lossless network free of deadlock.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace ibcoll::topology {

/// The most virtual lanes for data that InfiniBand has.
constexpr uint32_t kMostLanes = 15;

/// Puts routes into as few virtual lanes as it can, one after the other, so that in no lane buffers
/// can wait for each other in a cycle: each route takes the first lane where the dependencies
/// "full buffer behind link a waits for link b" stay acyclic (layered routing, Skeie, Lysne, Theiss
/// 2002; the order of links is kept up by the method of Pearce and Kelly 2006). Tree networks need
/// one lane, tori with dimension-order routes two or more.
class LaneAssigner {
 public:
  explicit LaneAssigner(uint32_t links) : links_(links) {}

  /// The lane of a route, given the links of it that lie between switches.
  uint32_t assign(std::span<const uint32_t> links);

  /// Lanes used so far; at least one.
  uint32_t lanes() const { return static_cast<uint32_t>(std::max<size_t>(lanes_.size(), 1)); }

 private:
  struct Lane {
    std::vector<uint32_t> place;  // of each link in an order that all dependencies follow
    std::vector<std::vector<uint32_t>> after, before;
  };
  bool add(Lane& lane, uint32_t from, uint32_t to);
  bool try_route(Lane& lane, std::span<const uint32_t> links);

  uint32_t links_;
  std::vector<Lane> lanes_;
  std::vector<uint8_t> seen_;
  std::vector<uint32_t> ahead_, behind_, stack_, places_, added_;
};

}  // namespace ibcoll::topology
