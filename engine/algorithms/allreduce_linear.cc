/// Linear allreduce: every rank puts its block to all others, and each combines all of them by the
/// tree of rank_order.h, so that all have the same bits. One step, for short blocks and few ranks.
/// Source: as Open MPI's basic linear reduce, of all ranks at once. Steps: 1. Messages: P - 1 a
/// rank. Bytes: P - 1 blocks. Combines: P - 1 blocks. Scratch: P - 2 slots.

#include "engine/algorithms/exchange_plans.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kAllreduce, "linear", shape, me, options);
  const FoldPlan plan = fold_of_all(shape, me, true);
  const Block combined{Block::kCombined, Block::kEveryone};
  program.add_scratch(std::vector<Block>(plan.scratch_places(), combined));
  program.begin_stream();
  plan.write(program, all_ranks(shape), send_slot(0), recv_slot(0), 0, [&](Rank to) {
    program.put(to, send_slot(0), FoldPlaces::of_all(shape, to, true).landing(me, recv_slot(0), 0));
  });
  program.end_stream();
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "linear",
    .collectives = {Collective::kAllreduce},
    .summary = "all ranks send to all, and each combines",
    .when = "short blocks, few ranks",
    .source = "Open MPI (basic linear), of all",
    .keeps_order = on_every_shape,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
