/// Ring alltoall(v) (Naruse et al. 2010, fig. 1; "pairwise" in MPI libraries): in step i every rank
/// sends to the rank i after it and receives from the rank i before it. No rank has two peers at a
/// time, but a server of several ranks has two, and the switch's ports are contended.
/// Steps: P, `window` of them in flight. Messages a rank: P - 1 (P - n between servers).
/// Bytes: P - 1 blocks. Scratch: none.

#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_walk.h"
#include "engine/algorithms/slots.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "ring", shape, me, options);
  const int ranks = shape.ranks();
  expose_to_all_servers(program);
  program.set_window(options.window);
  program.copy(recv_slot(me), send_slot(me));
  for (int i = 1; i < ranks; ++i) {
    const Rank to = (me + i) % ranks, from = (me - i + ranks) % ranks;
    program.begin_step(i);
    program.put(to, send_slot(to), recv_slot(me));
    program.expect(from, recv_slot(from));
  }
  forward_exposures(program);
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "ring",
    .collectives = {Collective::kAlltoall, Collective::kAlltoallv, Collective::kAlltoallw},
    .summary = "step i to the rank i after",
    .when = "what MPI libraries do with large blocks",
    .source = "Naruse 2010, fig. 1",
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
