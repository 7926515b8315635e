#pragma once
/// How algorithms name the slots of the two buffers of a call. How many there are, and which block
/// is in which, says the collective's row in engine/schedule/collective_traits.h; send_block() and
/// recv_block() (engine/schedule/collective.h) compute it.

#include "engine/schedule/program.h"

namespace ibcoll {

/// Slot `slot` of the send buffer.
inline Slice send_slot(Rank slot) { return {Buffer::kSend, static_cast<uint32_t>(slot), 1}; }
/// Slot `slot` of the receive buffer.
inline Slice recv_slot(Rank slot) { return {Buffer::kRecv, static_cast<uint32_t>(slot), 1}; }

}  // namespace ibcoll
