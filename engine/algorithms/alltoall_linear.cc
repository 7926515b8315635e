/// Linear alltoall(v): everything at once. Each rank posts all its puts, starting with the rank
/// after it, and serves what arrives in the order it arrives. Nothing is paced, so ports are
/// contended; the baseline, and the fastest where latency is all (few ranks, small blocks).
/// Source: MPICH's "scattered" and Open MPI's "basic linear" alltoall.
/// Steps: 1. Messages a rank: P - 1 (P - n between servers). Bytes: P - 1 blocks. Scratch: none.

#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_walk.h"
#include "engine/algorithms/slots.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "linear", shape, me, options);
  const int ranks = shape.ranks();
  expose_to_all_servers(program);
  program.begin_relaxed();
  for (int i = 1; i < ranks; ++i) {
    const Rank to = (me + i) % ranks;
    if (!shape.same_server(me, to)) program.put(to, send_slot(to), recv_slot(me));
  }
  for (int i = 1; i < ranks; ++i) {
    const Rank from = (me - i + ranks) % ranks;
    if (!shape.same_server(me, from)) program.expect(from, recv_slot(from));
  }
  program.end_relaxed();
  exchange_inside_server(program);
  forward_exposures(program);
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "linear",
    .collectives = {Collective::kAlltoall, Collective::kAlltoallv, Collective::kAlltoallw},
    .summary = "all blocks at once, in any order",
    .when = "few ranks, or small blocks on one server",
    .source = "MPICH (scattered), Open MPI (basic linear)",
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
