/// Linear scatter(v): the root puts every rank's block straight to it, in the order in which ranks
/// are ready. Only the root's own port is busy, so nothing is contended that a cleverer order could
/// help. Source: MPICH's and Open MPI's "basic linear" scatter.
/// Steps: 1. Messages: P - 1 of the root. Bytes: P - 1 blocks. Scratch: none.

#include "engine/algorithms/registry.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "linear", shape, me, options);
  const Rank root = options.root;
  if (me != root) {
    program.expect(root, recv_slot(0));
    return program.finish();
  }
  program.begin_relaxed();
  for (int i = 1; i < shape.ranks(); ++i) {
    const Rank to = (root + i) % shape.ranks();
    program.put(to, send_slot(to), recv_slot(0));
  }
  program.copy(recv_slot(0), send_slot(me));
  program.end_relaxed();
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "linear",
    .collectives = {Collective::kScatter, Collective::kScatterv},
    .summary = "the root sends to all ranks, as they are ready",
    .when = "large blocks, or one server",
    .source = "MPICH, Open MPI (basic linear)",
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
