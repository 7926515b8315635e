#pragma once
/// What ranks write each other when a wait takes long or a message does not fit its call.

#include <array>
#include <cstdint>

#include "engine/execute/call_meaning.h"
#include "engine/execute/mail.h"

namespace ibcoll {

/// The groups a rank has made, as far as messages to people need them.
class MadeGroups {
 public:
  virtual ~MadeGroups() = default;
  /// Whether this rank has made that call, of the group that is number `number` of that list of
  /// ranks.
  virtual bool has_made(uint64_t list, uint32_t number, const CallKey& call) const = 0;
  /// Whether there were several groups of the same ranks as that one.
  virtual bool made_several(uint64_t group) const = 0;
  /// A group that is there has been ended before its time; `list`: GroupState::list.
  virtual void ended(uint64_t list) = 0;
};

/// Follows the head of an inquiry, which names a call of the sender's.
struct Inquiry {
  CallMeaning meaning;
  uint64_t list = 0;   ///< of the group's ranks, hashed
  Rank rank = -1;      ///< the sender's in the job
  bool waits = false;  ///< it makes no other call before this one has ended
};

/// An inquiry about a call this rank has not made.
struct Asked {
  CallKey call;
  uint32_t program = 0;
  Inquiry inquiry;
  bool local = false;   ///< by a rank of this server
  CallKey told = {};    ///< the call that it was told this rank waits in
  uint32_t chains = 0;  ///< how many chains of waits it was told with that
};

/// Follows the head of a kStuck: ranks each of which waits in a call for the one before it, which
/// has not made that call and makes none before its own has ended. The first one waits for
/// somebody else.
struct WaitChain {
  static constexpr size_t kNamed = 4;
  struct WaitingRank {
    Rank rank = -1;                ///< of the job
    std::array<char, 128> call{};  ///< "call 3 (alltoall) of its group {0, 1}", cut
  };

  CallKey waited_in;  ///< the receiver's call that the last one has not made
  CallKey call;       ///< the first one's
  uint64_t list = 0;  ///< with `number`: its group's, for MadeGroups::has_made
  uint32_t number = 0;
  Rank awaits = -1;  ///< whom the first one waits for, of the job
  /// The first one's call can't end before the receiver has made it: a member, where all must.
  bool needs_receiver = false, needs_all = false;
  uint32_t ranks = 0;              ///< of its group
  std::array<Rank, 12> members{};  ///< of the job: the first ones
  uint32_t length = 0;
  Rank lowest = -1;                         ///< of all in the chain
  std::array<WaitingRank, kNamed> waiting;  ///< the first ones of the chain

  Rank first() const { return waiting[0].rank; }
};

/// A message did not fit its call, and the sender was asked what it means by it.
struct Dispute {
  CallKey call;
  CallMeaning mine;
  uint32_t program = 0;
  Rank peer = -1;  ///< in the job
  int64_t since_ns = 0;
  bool asked = false;
};

}  // namespace ibcoll
