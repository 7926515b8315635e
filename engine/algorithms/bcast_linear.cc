/// Linear broadcast: the root puts the block to every rank. The baseline; it sends one copy a rank
/// out of the root's port. Source: Open MPI's "basic linear" bcast.
/// Steps: 1. Messages: P - 1 of the root. Bytes: P - 1 blocks. Scratch: none.

#include "engine/algorithms/bcast_cost.h"
#include "engine/algorithms/registry.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kBcast, "linear", shape, me, options);
  if (me != options.root) {
    program.expect(options.root, recv_slot(0));
    return program.finish();
  }
  program.begin_relaxed();
  for (int i = 1; i < shape.ranks(); ++i) {
    program.put((me + i) % shape.ranks(), send_slot(0), recv_slot(0));
  }
  program.end_relaxed();
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "linear",
    .collectives = {Collective::kBcast},
    .summary = "the root sends to all ranks",
    .when = "few ranks",
    .source = "Open MPI (basic linear)",
    .spread = Spread::kFromRoot,
    .pieces = tree_pieces,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
