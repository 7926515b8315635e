/// Linear reduce: every rank puts its block to the root, which combines them by the tree of
/// rank_order.h: the same bits whatever the layout and the root. The baseline; the root's port and
/// memory take all blocks at once. Source: Open MPI's "basic linear" reduce. Steps: 1. Messages: 1
/// of each rank, P - 1 into the root. Bytes: P - 1 blocks. Combines: P - 1 blocks at the root.
/// Scratch, at the root: P - 2 slots.

#include "engine/algorithms/exchange_plans.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kReduce, "linear", shape, me, options);
  program.begin_stream();
  if (me != options.root) {
    const FoldPlaces places = FoldPlaces::of_all(shape, options.root, true);
    program.put(options.root, send_slot(0), places.landing(me, recv_slot(0), 0));
  } else {
    const FoldPlan plan = fold_of_all(shape, me, true);
    const Block combined{Block::kCombined, options.root};
    program.add_scratch(std::vector<Block>(plan.scratch_places(), combined));
    plan.write(program, all_ranks(shape), send_slot(0), recv_slot(0), 0);
  }
  program.end_stream();
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "linear",
    .collectives = {Collective::kReduce},
    .summary = "all ranks send to the root, which combines",
    .when = "few ranks",
    .source = "Open MPI (basic linear)",
    .keeps_order = on_every_shape,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
