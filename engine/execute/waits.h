#pragma once
/// What a call is waiting for, for messages to people and for those who look after waits.

#include <optional>
#include <string>

#include "engine/execute/posted_call.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// How long data of a rank that has left the job may be under way.
inline constexpr int64_t kLastDataNs = 700'000'000;

struct Wait {
  Rank peer = -1;  ///< in the job; -1: no one in particular
  uint32_t step = 0;
  const char* what = "";  ///< "to send its data"
  bool own = false;       ///< for what this rank itself is to bring
};

/// What keeps a lane from going on; nothing where it is through.
std::optional<Wait> wait_of(const PostedCall& call, const LaneState& lane,
                            const LocalTransport& local);
/// The first lane that can't go on says what the call waits for.
Wait wait_of(const PostedCall& call, const LocalTransport& local);
/// "rank 1 was waiting for rank 0 to send its data in bcast (linear), call 3, step 0".
std::string describe(const PostedCall& call, const LocalTransport& local);

}  // namespace ibcoll
