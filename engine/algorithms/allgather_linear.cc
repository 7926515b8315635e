/// Linear allgather(v): every rank puts its block to all others at once, starting with the rank
/// after it, and serves what arrives in the order it arrives. On one server each block is read
/// where it lies, by all at once. Source: Open MPI's "basic linear", of all ranks at once.
/// Steps: 1. Messages a rank: P - 1. Bytes: P - 1 blocks. Scratch: none.

#include "engine/algorithms/registry.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "linear", shape, me, options);
  const int ranks = shape.ranks();
  program.begin_relaxed();
  for (int i = 1; i < ranks; ++i) program.put((me + i) % ranks, send_slot(0), recv_slot(me));
  program.copy(recv_slot(me), send_slot(0));
  for (int i = 1; i < ranks; ++i) {
    const Rank from = (me - i + ranks) % ranks;
    program.expect(from, recv_slot(from));
  }
  program.end_relaxed();
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "linear",
    .collectives = {Collective::kAllgather, Collective::kAllgatherv},
    .summary = "all ranks send to all at once",
    .when = "one server; few ranks",
    .source = "Open MPI (basic linear), of all",
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
