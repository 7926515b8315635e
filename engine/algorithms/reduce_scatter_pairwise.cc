/// Pairwise reduce_scatter(_block) (Thakur, Rabenseifner, Gropp 2005, section 4.2), all at once:
/// every rank puts to each other what is for that one, the next rank first, and combines what
/// comes, that of the rank before it first; on one server it reads the others' memory straight.
/// Ordered, each combines by the tree of rank_order.h. Steps: 1. Messages a rank: P - 1. Bytes: P -
/// 1 blocks. Scratch: a slot for each rank of another server but the first; ordered, up to P / 2
/// more.

#include "engine/algorithms/exchange_plans.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "pairwise", shape, me, options);
  const FoldPlan plan = fold_of_all(shape, me, options.ordered);
  program.add_scratch(std::vector<Block>(plan.scratch_places(), {Block::kCombined, me}));
  program.begin_stream();
  plan.write(program, all_ranks(shape), send_slot(me), recv_slot(0), 0, [&](Rank to) {
    program.put(to, send_slot(to),
                FoldPlaces::of_all(shape, to, options.ordered).landing(me, recv_slot(0), 0));
  });
  program.end_stream();
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "pairwise",
    .collectives = {Collective::kReduceScatter, Collective::kReduceScatterBlock},
    .summary = "each rank combines what all others have for it",
    .when = "one server; few ranks",
    .source = "Thakur 2005, section 4.2",
    .keeps_order = on_every_shape,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
