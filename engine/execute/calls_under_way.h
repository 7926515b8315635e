#pragma once
/// The calls a rank has under way, and what moves in them.

#include <cstdint>
#include <vector>

#include "engine/execute/posted_call.h"

namespace ibcoll {

struct CallsUnderWay {
  std::vector<PostedCall*> started;     ///< and not yet finished
  const Completion* waiting = nullptr;  ///< what this rank has been waiting for for long
  uint32_t moves = 0;   ///< in how many rounds of progress anything has moved; wraps around
  bool unseen = false;  ///< something has, since a descriptor was last to be armed

  PostedCall* find(const CallKey& id) const {
    for (PostedCall* call : started) {
      if (call->id() == id) return call;
    }
    return nullptr;
  }
  /// The call that this rank has been waiting for for long, if it has one under way. The program
  /// does not wait in calls that arrivals have made.
  const PostedCall* waited_for() const {
    const PostedCall* call = waiting != nullptr ? waiting->call : nullptr;
    return call != nullptr && !call->group->by_arrival ? call : nullptr;
  }
};

}  // namespace ibcoll
