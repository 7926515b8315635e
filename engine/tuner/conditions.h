#pragma once
/// What choices may depend on: the facts of a call, and the short list of conditions that rows of
/// the table of choices name.

#include <cstdint>
#include <string>

#include "engine/schedule/collective.h"
#include "engine/schedule/graph.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

/// What all ranks of a group know alike about a call.
struct CallFacts {
  Collective collective;
  const Shape& shape;
  /// Of equal blocks; -1 where blocks may differ in size, which counts as longer than any limit. Of
  /// a reduce_scatter the mean (size_to_choose_by).
  int64_t block_bytes;
  bool ordered = false;          ///< see AlgorithmOptions::ordered; what is chosen keeps it
  const Graph* graph = nullptr;  ///< where the collective has one
  /// Only the leaders of servers send to other servers: a multicast.
  bool by_leaders = false;
  /// Messages between servers go through a protocol stack and cost cores' time (TCP).
  bool costs_cores = false;
  bool plans = true;  ///< plans for the network may be made
  /// That each rank may have at a time to ranks of other servers; 0: any number.
  uint32_t connections = 0;
};

/// Conditions on a call, as bits: a row of the table names those that must hold.
enum Condition : uint32_t {
  kAlways = 0,
  kOneServer = 1 << 0,
  kEqualServers = 1 << 1,      ///< all have the same number of ranks
  kSeveralAServer = 1 << 2,    ///< the largest server has more than one rank
  kThreeAServer = 1 << 3,      ///< the largest server has at least three
  kSharesAlike = 1 << 4,       ///< each server has several ranks, and at least half of the most
  kManyServers = 1 << 5,       ///< at least 32
  kPlannableServers = 1 << 6,  ///< at most 128: plans for more take seconds
  kTwoRanks = 1 << 7,          ///< at most
  kFewRanks = 1 << 8,          ///< at most eight
  kPowerOfTwo = 1 << 9,        ///< ranks
  kOrdered = 1 << 10,
  kByLeaders = 1 << 11,
  kCostsCores = 1 << 12,
  kSharedMessages = 1 << 13,  ///< of the graph: two blocks or more a message between two servers
  kSharedBlocks = 1 << 14,    ///< of the graph: two receivers or more a block that crosses
  kFewForRanks = 1 << 15,     ///< fewer connections than ranks of other servers
  kFewForServers = 1 << 16,   ///< fewer connections than other servers
};

constexpr Condition operator|(Condition a, Condition b) {
  return static_cast<Condition>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}

/// Whether all of them do. Allocates nothing.
bool hold(Condition all, const CallFacts& facts);

/// "one server, eight ranks or fewer"; "all others" where none is named.
std::string describe(Condition all);

}  // namespace ibcoll
