/// Scatter(v) in which the root sends to one rank of the other servers after the other: the next
/// block leaves when the one before has arrived (its put is complete). Never more than one block is
/// on its way, so no link past the root's is contended however narrow it is.
/// Steps: P - n + 2. Messages: P - 1 of the root. Bytes: P - 1 blocks. Scratch: none.

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
  for (const Rank to : line.ranks(1, line.places())) {
    program.begin_step(step++);
    if (me == to) program.expect(root, recv_slot(0));
    if (me != root) continue;
    program.hold(Lane::kSend, Lane::kSend);
    program.put(to, send_slot(to), recv_slot(0));
  }
  program.begin_step(step);
  if (me == root) {
    program.begin_relaxed();
    for (const Rank to : line.ranks(0, 1)) {
      if (to != me) program.put(to, send_slot(to), recv_slot(0));
    }
    program.copy(recv_slot(0), send_slot(me));
    program.end_relaxed();
  } else if (shape.same_server(me, root)) {
    program.expect(root, recv_slot(0));
  }
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "one_at_a_time",
    .collectives = {Collective::kScatter, Collective::kScatterv},
    .summary = "the next rank's block leaves when the one before has arrived",
    .when = "links narrower than the root's",
    .source = "here",
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
