#pragma once
/// By which broadcast a long multicast is passed on.

#include <cstdint>

#include "engine/algorithms/registry.h"
#include "engine/multicast/messages.h"

namespace ibcoll {

struct MulticastChoice {
  const Algorithm* algorithm = nullptr;
  uint32_t pieces = 1;
};

/// What the root of a multicast to these servers takes, where the facts leave it open; for messages
/// that are not short. Fails where they name an algorithm that there is not (kMismatch), or one
/// that multicasts can't go by (kInvalidArgument).
Result<MulticastChoice> choose_multicast(const MulticastFacts& facts, const MemberServers& servers);

/// The bcast of a number that a message tells; kMismatch where there is none.
Result<const Algorithm*> algorithm_of(uint32_t number);

/// Whether a multicast to ranks on so many servers can go by that bcast: it reaches one rank of
/// each, the leader, and the ranks of a server get everything from that. kInvalidArgument: no.
Status check_multicast(const Algorithm& algorithm, int servers);

}  // namespace ibcoll
