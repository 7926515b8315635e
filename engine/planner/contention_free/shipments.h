#pragma once
/// From what is to be delivered to shipments: who sends what to whom.

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// Calls `visit(origin, target, bytes)` for every message between two servers that has bytes; the
/// target is kEveryone, or the origin, where kPlanned says so.
template <class Visit>
void visit_messages(const PlanInputs& inputs, Visit&& visit) {
  const int servers = static_cast<int>(inputs.server_ranks.size());
  const auto one = [&](int origin, int target, uint64_t bytes) {
    if (bytes > 0 && servers > 1) visit(origin, target, bytes);
  };
  switch (inputs.collective) {
    case Collective::kGather:
    case Collective::kScatter:
      for (int other = 0; other < servers; ++other) {
        if (other == inputs.root) continue;
        const bool gather = inputs.collective == Collective::kGather;
        const int origin = gather ? other : inputs.root, target = gather ? inputs.root : other;
        one(origin, target, message_bytes(inputs, origin, target));
      }
      return;
    case Collective::kAlltoall:
      for (int origin = 0; origin < servers; ++origin) {
        for (int target = 0; target < servers; ++target) {
          if (origin != target) one(origin, target, message_bytes(inputs, origin, target));
        }
      }
      return;
    case Collective::kAllgather:
      for (int origin = 0; origin < servers; ++origin) {
        one(origin, kEveryone, message_bytes(inputs, origin, kEveryone));
      }
      return;
    case Collective::kBcast:
      return one(inputs.root, kEveryone, inputs.block_bytes);
    case Collective::kReduce:
      return one(kEveryone, inputs.root, inputs.block_bytes);
    case Collective::kReduceScatter:
    case Collective::kAllreduce:
      for (int target = 0; target < servers; ++target) {
        one(kEveryone, target, message_bytes(inputs, kEveryone, target));
      }
      for (int origin = 0; origin < servers && inputs.collective == Collective::kAllreduce;
           ++origin) {
        one(origin, kEveryone, message_bytes(inputs, origin, kEveryone));
      }
      return;
    default:  // is not planned
      return;
  }
}

/// How data for many spreads.
enum class Spread : uint8_t {
  kChain,     ///< from server to server, nearest first: no link carries it twice in one direction
              ///< (on a tree of switches)
  kBranches,  ///< from switch to switch as kChain, and at once on from each switch's first server
              ///< through the others; no link between switches carries it twice either
  kEarliest,  ///< whoever can send first sends it to the next that lacks it, one server of each
              ///< switch first: the shortest tree on one switch (postal model, Karp et al. 1993)
  kRing,      ///< from each server to the next by position, all messages the same way round
  kHeads,     ///< one server of each switch as kEarliest, the others as kChain
};

/// Fills the shipments, each after the one it forwards, and measures them. Gather, scatter and
/// alltoall send straight, or by the fewest permitted pairs; for them `spread` means nothing.
/// Fails, naming two servers, where permitted pairs leave no way.
Status make_shipments(Problem& problem, Spread spread);

}  // namespace ibcoll::contention_free
