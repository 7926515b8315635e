#include "engine/execute/peer_states.h"

#include <utility>

namespace ibcoll {
namespace {

constexpr size_t kFewest = 16;

}  // namespace

size_t PeerStates::bytes_for(size_t peers) {
  size_t entries = peers == 0 ? 0 : kFewest;
  while (2 * peers > entries) entries *= 2;
  return entries * sizeof(PeerState);
}

PeerState& PeerStates::add(Rank rank) {
  if (2 * (used_ + 1) > entries_.size()) {
    std::vector<PeerState> old(entries_.empty() ? kFewest : 2 * entries_.size());
    old.swap(entries_);
    for (const PeerState& entry : old) {
      if (entry.call == call_) *slot(entry.rank) = entry;
    }
  }
  ++used_;
  PeerState& entry = *slot(rank);
  entry = {};
  entry.rank = rank;
  entry.call = call_;
  return entry;
}

}  // namespace ibcoll
