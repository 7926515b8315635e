/// Ring allgather(v) (Thakur, Rabenseifner, Gropp 2005, section 4.1), along the servers: ranks pass
/// blocks on in the order of (server, local rank), so that each server has one connection in and
/// one out whatever the placement of ranks. Each step is a stream: a block is passed on piece by
/// piece while it arrives. For long blocks.
/// Steps and messages a rank: P - 1. Bytes: P - 1 blocks. Scratch: none.

#include "engine/algorithms/registry.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "ring", shape, me, options);
  std::vector<Rank> ring;
  size_t at = 0;
  for (int server = 0; server < shape.servers(); ++server) {
    for (const Rank rank : shape.members(server)) {
      if (rank == me) at = ring.size();
      ring.push_back(rank);
    }
  }
  const size_t ranks = ring.size();
  const Rank next = ring[(at + 1) % ranks], previous = ring[(at + ranks - 1) % ranks];
  for (size_t i = 0; i + 1 < ranks; ++i) {
    const Rank passed = ring[(at + ranks - i) % ranks], coming = ring[(at + ranks - i - 1) % ranks];
    program.begin_step(i);
    program.begin_stream();
    program.put(next, i == 0 ? send_slot(0) : recv_slot(passed), recv_slot(passed));
    program.expect(previous, recv_slot(coming));
    program.end_stream();
  }
  program.copy(recv_slot(me), send_slot(0));
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "ring",
    .collectives = {Collective::kAllgather, Collective::kAllgatherv},
    .summary = "blocks run along the servers, piece by piece",
    .when = "long blocks",
    .source = "Thakur 2005, section 4.1",
    .relays = true,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
