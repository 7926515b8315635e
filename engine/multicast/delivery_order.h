#pragma once
/// The order in which a rank is handed the messages of each master.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/schedule/shape.h"

namespace ibcoll {

/// In which order messages of each master are handed over on one rank: that in which the master has
/// sent them to it, however they come. Counters, from 1, ascend for each master, with holes where
/// it sent to others. A message names the counter of the one before it to this rank (`previous`; 0:
/// there is none that could still be under way), so that a hole is told from one that is late.
class DeliveryOrder {
 public:
  using MessageName = std::pair<Rank, uint64_t>;  ///< master and counter

  /// A message of `master` has been announced (may still lack its data). False: it is not wanted
  /// (a duplicate, or it was skipped).
  bool announce(Rank master, uint64_t counter, uint64_t previous);
  /// Its data are complete. Appends to `ready` all that can be handed over now, in order. Nothing
  /// happens where it is not wanted.
  void complete(Rank master, uint64_t counter, std::vector<MessageName>& ready);
  /// It will never come, or is not to be handed over: those behind it go on. May come before it was
  /// announced (then a later announce() gives false).
  void skip(Rank master, uint64_t counter, uint64_t previous, std::vector<MessageName>& ready);
  /// A master has died: nothing waits any more for what has not been announced.
  void lose(Rank master, std::vector<MessageName>& ready);
  /// Whether nothing that this rank is to get stands before a message with that `previous`.
  bool is_next(Rank master, uint64_t previous) const;
  /// Whether the message of that counter has been announced, or is done with. True of 0.
  bool knows(Rank master, uint64_t counter) const;
  /// Masters and messages that are remembered now: a few words for each master that has sent, and
  /// those under way.
  size_t remembered() const;

 private:
  enum class State : uint8_t { kAnnounced, kComplete, kSkipped };
  struct Pending {
    uint64_t counter, previous;
    State state;
  };
  struct Master {
    uint64_t done = 0;             ///< the last one handed over or skipped
    std::vector<Pending> pending;  ///< ascending
    bool lost = false;             ///< it has died: what it sent before may never come
  };
  static std::vector<Pending>::iterator find(Master& master, uint64_t counter);
  static void advance(Rank rank, Master& master, std::vector<MessageName>& ready);

  std::unordered_map<Rank, Master> masters_;
};

}  // namespace ibcoll
