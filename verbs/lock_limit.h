#pragma once
/// How much memory this process may lock: all that an RDMA device reads and writes is.

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/result.h"

namespace ibcoll::verbs {

/// Bytes that this process may lock, once its limit is as high as it may set it; none: as many as
/// it likes.
std::optional<uint64_t> lockable_bytes();

/// Why ranks that may lock so much should rather use another network, of so many on a machine with
/// so much memory; empty: no reason. What a call is given to send and receive has to be locked, and
/// which calls a program makes nobody knows at its start.
std::string too_little_lockable(std::optional<uint64_t> lockable, uint64_t memory_bytes, int ranks);

/// What a rank tells the others of an error while it sets up the transport. A device that gets no
/// memory, since this process may lock no more, is no reason to have no network at all where
/// another may be taken (NetworkSetup::may_decline): kUnsupported.
Error declined(Error error, bool may_decline);

}  // namespace ibcoll::verbs
