/// Scan and exscan along a chain of ranks (Open MPI's linear one, in pieces): each adds its data to
/// what the rank before it sends, and passes the sum on, piece by piece. For long blocks. Steps: P
/// - 1. Messages and bytes: 1 block a rank. Scratch: 1 slot in an exscan.

#include "engine/algorithms/registry.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "chain", shape, me, options);
  const bool scan = collective == Collective::kScan;
  const bool last = me + 1 == shape.ranks();
  const Slice received = recv_slot(0);
  Slice sum = send_slot(0);
  program.begin_stream();
  if (me == 0) {
    if (scan) program.copy(received, sum);
  } else {
    program.begin_step(static_cast<uint32_t>(me - 1));
    Slice next = received;
    if (!scan && !last) {
      const Block combined{Block::kCombined, Block::kEveryone};
      next = program.add_scratch({&combined, 1});
      program.copy(next, sum);  // before the wait: all ranks behind wait for what comes after it
    }
    program.expect(me - 1, received);
    if (scan) {
      program.reduce(next, sum, {});
    } else if (!last) {
      program.reduce(next, received, {.before = true});
    }
    sum = next;
  }
  program.begin_step(static_cast<uint32_t>(me));
  if (!last) program.put(me + 1, sum, received);
  program.end_stream();
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "chain",
    .collectives = {Collective::kScan, Collective::kExscan},
    .summary = "from rank to rank, piece by piece",
    .when = "long blocks",
    .source = "Open MPI (linear)",
    .relays = true,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
