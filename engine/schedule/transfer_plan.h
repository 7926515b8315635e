#pragma once
/// In which order servers send to each other: what a planner hands to algorithm contention_free.

#include <cstdint>
#include <vector>

#include "engine/schedule/collective.h"

namespace ibcoll {

/// Messages between servers. A message has all that the ranks of its origin have for those of its
/// target (Block::kEveryone: the same for all; as origin, of reduce: of all servers). Times say in
/// which order a server sends and receives; what must not begin before something else has ended
/// says so in `tokens`.
struct TransferPlan {
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Transfer {
    int from = 0, to = 0;        ///< servers
    int origin = 0, target = 0;  ///< of the message
    uint32_t forwards = kNone;   ///< the transfer that brought the message to `from`
    int64_t start_ns = 0, end_ns = 0;
  };
  static constexpr uint32_t kParts = 1u << 16;
  /// `before` begins when all but `left` parts of kParts of `after` are there.
  struct Token {
    uint32_t after = 0, before = 0;
    uint32_t left = 0;
  };
  std::vector<Transfer> transfers;  ///< what one comes after stands before it
  std::vector<Token> tokens;
  uint64_t hash = 0;  ///< the same on all ranks for the same plan, different for different ones

  /// Computes the hash.
  void seal();
};

/// A plan that needs no planner: one switch, servers that are all alike. gather: one after the
/// other; scatter: in turn; alltoall: a ring of servers, each with one sender at a time; allgather:
/// along a ring; bcast and reduce: binomial trees.
TransferPlan one_switch_plan(Collective collective, const Shape& shape, Rank root);

}  // namespace ibcoll
