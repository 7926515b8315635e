#pragma once
/// From what is to be delivered to jobs: who sends what to whom.

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// Calls `visit(origin, target, bytes)` for every message between two servers that has bytes; the
/// target is kEveryone, or the origin, where Kind says so.
template <class Visit>
void visit_messages(const PlanRequest& request, Visit&& visit) {
  const int servers = static_cast<int>(request.server_ranks.size());
  const auto one = [&](int origin, int target, uint64_t bytes) {
    if (bytes > 0 && servers > 1) visit(origin, target, bytes);
  };
  switch (request.kind) {
    case Kind::kGather:
    case Kind::kScatter:
      for (int other = 0; other < servers; ++other) {
        if (other == request.root) continue;
        const bool gather = request.kind == Kind::kGather;
        const int origin = gather ? other : request.root, target = gather ? request.root : other;
        one(origin, target, message_bytes(request, origin, target));
      }
      return;
    case Kind::kAlltoall:
      for (int origin = 0; origin < servers; ++origin) {
        for (int target = 0; target < servers; ++target) {
          if (origin != target) one(origin, target, message_bytes(request, origin, target));
        }
      }
      return;
    case Kind::kAllgather:
      for (int origin = 0; origin < servers; ++origin) {
        one(origin, kEveryone, message_bytes(request, origin, kEveryone));
      }
      return;
    case Kind::kBcast:
      return one(request.root, kEveryone, request.block_bytes);
    case Kind::kReduce:
      return one(kEveryone, request.root, request.block_bytes);
    case Kind::kReduceScatter:
    case Kind::kAllreduce:
      for (int target = 0; target < servers; ++target) {
        one(kEveryone, target, message_bytes(request, kEveryone, target));
      }
      for (int origin = 0; origin < servers && request.kind == Kind::kAllreduce; ++origin) {
        one(origin, kEveryone, message_bytes(request, origin, kEveryone));
      }
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

/// Fills the jobs, each after the one it forwards, and measures them. Gather, scatter and alltoall
/// send straight, or by the fewest permitted pairs; for them `spread` means nothing. Fails, naming
/// two servers, where permitted pairs leave no way.
Status make_jobs(Problem& problem, Spread spread);

}  // namespace ibcoll::contention_free
