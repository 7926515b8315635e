#pragma once
/// What a call knows of its peers on other servers.

#include <cstdint>
#include <vector>

#include "engine/base/hash.h"
#include "engine/execute/mail.h"

namespace ibcoll {

/// The end of a chain of indices.
inline constexpr uint32_t kNone = ~uint32_t{0};

/// A first-in, first-out chain of entries that stand in one vector with those of other chains.
struct Chain {
  uint32_t first = kNone, last = kNone;

  bool empty() const { return first == kNone; }
  /// Appends the entry with that index; `entries[i].next` is entry i's successor.
  template <class Entry>
  void push(std::vector<Entry>& entries, uint32_t index) {
    entries[index].next = kNone;
    (empty() ? first : entries[last].next) = index;
    last = index;
  }
  template <class Entry>
  void pop(const std::vector<Entry>& entries) {
    first = entries[first].next;
  }
};

/// Takes one of those that have come and wait for their operations; false: there is none.
inline bool take_one(uint32_t& count) { return count != 0 && count-- != 0; }

struct PeerState {
  Rank rank = -1;             ///< in the job
  uint32_t call = 0;          ///< which use of the table the entry belongs to
  uint32_t arrivals = 0;      ///< puts that have come and wait for their operations
  uint32_t tokens = 0;        ///< tokens that have come and wait for their operations
  uint32_t exposures = 0;     ///< how often it has exposed to this rank, or to its server
  uint32_t cell = 0;          ///< the immediate of puts there
  uint64_t put_bytes = 0;     ///< of a message that takes several puts: what has been posted
  RegionPlace recv, scratch;  ///< looked up by puts: the key may come after the exposure
  Chain landings;             ///< in PostedCall::landings: where this rank's next puts go
  Chain mailed;               ///< in PostedCall::mailed: messages that came with their data
};

/// The peers that a call has to do with, by rank of the job. A hash table, so that a call costs
/// what it touches, not what its group has; it keeps its memory from call to call and is emptied at
/// once. References hold until another rank is asked for.
class PeerStates {
 public:
  /// Bytes that it comes to take where a call has to do with so many peers.
  static size_t bytes_for(size_t peers);

  /// Forgets everything.
  void clear() {
    used_ = 0;
    if (++call_ != 0) return;
    entries_.assign(entries_.size(), {});
    call_ = 1;
  }
  /// The state of a rank, empty at first.
  PeerState& operator[](Rank rank) {
    PeerState* found = slot(rank);
    if (found != nullptr && found->call == call_) [[likely]]
      return *found;
    return add(rank);
  }
  /// Null where nothing is known.
  const PeerState* find(Rank rank) const {
    const PeerState* found = slot(rank);
    return found != nullptr && found->call == call_ ? found : nullptr;
  }

 private:
  /// The rank's entry, or the free one that it would get; null: there is no memory yet.
  const PeerState* slot(Rank rank) const {
    if (entries_.empty()) [[unlikely]]
      return nullptr;
    const size_t mask = entries_.size() - 1;
    for (size_t i = bucket_of(static_cast<uint32_t>(rank), 32) & mask;; i = (i + 1) & mask) {
      const PeerState& entry = entries_[i];
      if (entry.rank == rank || entry.call != call_) return &entry;
    }
  }
  PeerState* slot(Rank rank) { return const_cast<PeerState*>(std::as_const(*this).slot(rank)); }
  PeerState& add(Rank rank);

  std::vector<PeerState> entries_;  ///< a power of two; at most half of them are in use
  uint32_t call_ = 1;
  size_t used_ = 0;
};

}  // namespace ibcoll
