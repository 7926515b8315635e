#pragma once
/// The ring that algorithms pass data along which go from rank to rank.

#include <algorithm>
#include <vector>

#include "engine/schedule/shape.h"

namespace ibcoll {

/// All ranks in the order of (server, local rank), so that each server has one connection in and
/// one out whatever the placement of ranks. The last is followed by the first.
inline std::vector<Rank> server_ring(const Shape& shape) {
  std::vector<Rank> ring;
  for (int server = 0; server < shape.servers(); ++server) {
    const auto members = shape.members(server);
    ring.insert(ring.end(), members.begin(), members.end());
  }
  return ring;
}

/// The ring as a rank sees it.
struct RankRing {
  const std::vector<Rank> ranks;
  const size_t at;  ///< this rank's place

  RankRing(const Shape& shape, Rank me)
      : ranks(server_ring(shape)),
        at(static_cast<size_t>(std::find(ranks.begin(), ranks.end(), me) - ranks.begin())) {}
  size_t size() const { return ranks.size(); }
  /// Places before this rank's.
  size_t place_before(size_t distance) const { return (at + 2 * size() - distance) % size(); }
  Rank next() const { return ranks[(at + 1) % size()]; }
  Rank previous() const { return ranks[place_before(1)]; }
};

}  // namespace ibcoll
