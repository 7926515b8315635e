#pragma once
/// In which order servers send to each other: what a planner hands to algorithm contention_free.

#include <cstdint>
#include <vector>

#include "engine/schedule/collective.h"

namespace ibcoll {

/// Messages between servers. A message has all that the ranks of its origin have for those of its
/// target (Block::kEveryone: the same for all; as origin, of reductions: of all servers). Times say
/// in which order a server sends and receives; what must not begin before something else has ended
/// says so in `tokens`.
struct TransferPlan {
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Transfer {
    int from = 0, to = 0;        ///< servers
    int origin = 0, target = 0;  ///< of the message
    /// The transfer that brought the message to `from`; of what awaits a sum one that feeds it.
    uint32_t forwards = kNone;
    int64_t start_ns = 0, end_ns = 0;
    uint32_t part = 0;  ///< of the message
  };
  static constexpr uint32_t kParts = 1u << 16;
  /// `before` begins when all but `left` parts of kParts of `after` are there.
  struct Token {
    uint32_t after = 0, before = 0;
    uint32_t left = 0;
  };
  std::vector<Transfer> transfers;  ///< what one comes after stands before it
  std::vector<Token> tokens;
  /// What streams are to be cut into, so that tokens are sent in time and data is passed on as the
  /// planner meant it. 1: it does not matter. Of messages cut into parts: slots of each part.
  uint32_t pieces = 1;
  /// Of two pieces: what the last one has, in parts of kParts; 0: pieces are alike.
  uint32_t last_part = 0;
  /// That messages are cut into: slots of a block that is cut. Only of bcast, and without tokens.
  uint32_t parts = 1;
  bool relays = false;  ///< data is passed on, at least inside servers
  /// As planned, and what no plan can be shorter than; 0 where nothing is known of the network.
  int64_t time_ns = 0, bound_ns = 0;
  /// Tokens can be sent when they should be: the longest way there and back is a quarter of the
  /// shortest transfer at most.
  bool keeps_time = false;
  uint64_t hash = 0;  ///< the same on all ranks for the same plan, different for different ones

  /// Computes the hash.
  void seal();
};

/// A plan that needs no planner: one switch, servers that are all alike. gather: one after the
/// other; scatter: in turn; alltoall: a ring of servers, each with one sender at a time; allgather:
/// along a ring; bcast and reduce: binomial trees; reduce_scatter: a ring the other way round;
/// allreduce: the same, then an allgather.
TransferPlan one_switch_plan(Collective collective, const Shape& shape, Rank root);

}  // namespace ibcoll
