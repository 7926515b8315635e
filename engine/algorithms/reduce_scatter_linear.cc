/// Linear reduce_scatter(_block): every rank puts to all others what is for them, at once, and
/// combines by the tree of rank_order.h what has come. Unlike pairwise, nothing is taken before all
/// is given, so that ranks that share cores change turns once: for short blocks and few ranks.
/// Source: as Open MPI's basic linear reduce, of all ranks at once. Steps: 1. Messages: P - 1 a
/// rank. Bytes: P - 1 blocks. Combines: P - 1 blocks. Scratch: P - 2 slots.

#include "engine/algorithms/exchange_plans.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "linear", shape, me, options);
  const FoldPlan plan = fold_of_all(shape, me, true);
  program.add_scratch(std::vector<Block>(plan.scratch_places(), {Block::kCombined, me}));
  plan.write(program, all_ranks(shape), send_slot(me), recv_slot(0), 0, [&](Rank to) {
    program.put(to, send_slot(to),
                FoldPlaces::of_all(shape, to, true).landing(me, recv_slot(0), 0));
  });
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "linear",
    .collectives = {Collective::kReduceScatter, Collective::kReduceScatterBlock},
    .summary = "all ranks send to all, and then each combines",
    .when = "short blocks, few ranks",
    .source = "Open MPI (basic linear), of all",
    .keeps_order = on_every_shape,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
