#pragma once
/// Which algorithm serves a call best. What was measured for all machines belongs here, and nowhere
/// else; what was measured for one job, into a file of rules.

#include <cstdint>
#include <string_view>

#include "engine/schedule/program.h"
#include "engine/tuner/rules.h"

namespace ibcoll {

struct Choice {
  std::string_view algorithm;
  AlgorithmOptions options;
  uint32_t pieces = 1;
  bool by_rule = false;  ///< else the engine's own
};

/// A pure function of what all ranks of a group know alike. `block_bytes`: -1 where blocks may
/// differ in size; of a reduce_scatter the mean, which all ranks know. `ordered`: see
/// AlgorithmOptions::ordered; what is chosen keeps it.
/// `graph`: where the collective has one.
Choice choose(Collective collective, const Shape& shape, int64_t block_bytes, bool ordered = false,
              const Graph* graph = nullptr);

/// The same where there are rules, which go before the engine's own choice. `rule_bytes`: the size
/// that counts for these, block_bytes or the mean where all ranks know all blocks. A rule whose
/// algorithm can't keep the order that is asked for does not count.
Choice choose(const Rules& rules, Collective collective, const Shape& shape, int64_t block_bytes,
              int64_t rule_bytes, bool ordered = false, const Graph* graph = nullptr);

/// For what choose() gave by itself, without order or graph, where messages between servers go
/// through a protocol stack and cost cores' time (TCP): takes what sends fewer of them where that
/// was faster.
void spare_messages(Choice& choice, Collective collective, const Shape& shape, int64_t block_bytes);

/// What choose() is given for blocks of so many bytes, in the mean where they may differ.
inline int64_t size_to_choose_by(Collective collective, int64_t bytes) {
  return is_unequal(collective) && collective != Collective::kReduceScatter ? -1 : bytes;
}

/// How many pieces blocks of this size are passed on in; 1 where blocks may differ in size (-1).
/// `plan`: of contention_free, where pieces must be small enough for tokens to be sent ahead.
uint32_t choose_pieces(int64_t block_bytes, const TransferPlan* plan = nullptr);

/// How many pieces suit an algorithm that the caller has chosen.
uint32_t choose_pieces(std::string_view algorithm, Collective collective, const Shape& shape,
                       int64_t block_bytes);

/// Whether contention_free may take less time, on a network that is known, than what choose()
/// gives: then a plan is worth making.
bool may_pay(const Choice& choice, Collective collective, const Shape& shape);
/// Whether it does. `walk_ns`: alltoall: what a walk over the servers takes with blocks of this
/// size, if every step lasts as long as its busiest link needs (planner/server_order.h).
bool plan_pays(const TransferPlan& plan, Collective collective, double walk_ns);

/// Whether waiting for tokens costs more than it saves at this block size: they are left out when a
/// step is shorter than about ten token latencies.
Pacing choose_pacing(const Shape& shape, int64_t block_bytes);

}  // namespace ibcoll
