/// Ring allgather(v) (Thakur, Rabenseifner, Gropp 2005, section 4.1): ranks pass blocks on along
/// the servers (server_ring.h). Each step is a stream: a block is passed on piece by piece while it
/// arrives. For long blocks.
/// Steps and messages a rank: P - 1. Bytes: P - 1 blocks. Scratch: none.

#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_ring.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "ring", shape, me, options);
  const RankRing ring(shape, me);
  for (size_t i = 0; i + 1 < ring.size(); ++i) {
    const Rank passed = ring.ranks[ring.place_before(i)];
    const Rank coming = ring.ranks[ring.place_before(i + 1)];
    program.begin_step(i);
    program.begin_stream();
    program.put(ring.next(), i == 0 ? send_slot(0) : recv_slot(passed), recv_slot(passed));
    program.expect(ring.previous(), recv_slot(coming));
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
