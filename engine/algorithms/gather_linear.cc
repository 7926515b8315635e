/// Linear gather(v): every rank puts its block straight to its place at the root, all at once. The
/// baseline: with more than a few senders the root's port is contended (incast). Source: MPICH's
/// and Open MPI's "basic linear" gather. Steps: 1. Messages: 1 of each rank, P - 1 into the root.
/// Bytes: P - 1 blocks. Scratch: none.

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
    program.put(root, send_slot(0), recv_slot(me));
    return program.finish();
  }
  program.begin_relaxed();
  for (int i = 1; i < shape.ranks(); ++i) {
    const Rank from = (root + i) % shape.ranks();
    program.expect(from, recv_slot(from));
  }
  program.copy(recv_slot(me), send_slot(0));
  program.end_relaxed();
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "linear",
    .collectives = {Collective::kGather, Collective::kGatherv},
    .summary = "all ranks send to the root at once",
    .when = "few ranks",
    .source = "MPICH, Open MPI (basic linear)",
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
