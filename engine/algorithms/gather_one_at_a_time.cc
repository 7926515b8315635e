/// Gather(v) in which the ranks of other servers send one after the other: the root lets the next
/// one write (the exposure is the token) when the block before is in. No port is ever contended,
/// and between two blocks the root waits for a round trip: for large blocks. The root's own server
/// goes by shared memory meanwhile. Steps: P - n + 2. Messages: 1 of each rank. Bytes: P - 1
/// blocks. Scratch: none.

#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_tree.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "one_at_a_time", shape, me, options);
  const Rank root = options.root;
  const ServerLine line(shape, root);
  uint32_t step = 1;
  for (const Rank from : line.ranks(1, line.places())) {
    program.begin_step(step++);
    if (me == from) program.put(root, send_slot(0), recv_slot(me));
    if (me != root) continue;
    program.hold(Lane::kRecv, Lane::kRecv);
    program.expose(from);
    program.expect(from, recv_slot(from));
  }
  program.begin_step(step);
  if (me == root) {
    program.begin_relaxed();
    for (const Rank from : line.ranks(0, 1)) {
      if (from != me) program.expect(from, recv_slot(from));
    }
    program.copy(recv_slot(me), send_slot(0));
    program.end_relaxed();
  } else if (shape.same_server(me, root)) {
    program.put(root, send_slot(0), recv_slot(me));
  }
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "one_at_a_time",
    .collectives = {Collective::kGather, Collective::kGatherv},
    .summary = "ranks of other servers one after the other, each released by the root",
    .when = "large blocks",
    .source = "here",
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
