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
};

/// Follows the head of an inquiry and of a kStuck, which name a call of the sender's.
struct Inquiry {
  CallMeaning meaning;
  CallKey other;                   ///< kStuck: the receiver's call that the sender has not made
  uint64_t list = 0;               ///< of the group's ranks, hashed
  uint64_t identifier = 0;         ///< as in GroupState
  bool of_set = false;             ///< as in GroupState
  Rank rank = -1;                  ///< the sender's in the job
  bool waits = false;              ///< it makes no other call before this one has ended
  uint32_t ranks = 0;              ///< of the group
  std::array<Rank, 12> members{};  ///< of the job: the first ones
};

/// An inquiry about a call this rank has not made.
struct Asked {
  CallKey call;
  uint32_t program = 0;
  Inquiry inquiry;
  bool local = false;  ///< by a rank of this server
  CallKey told = {};   ///< the call that it was told this rank waits in
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
