/// Ring allreduce (Patarasuk, Yuan 2009): the block is cut into P slots, which are combined along
/// the ring of ranks (reduce_ring.h), and then run along it until all have all. Each step is a
/// stream. For long blocks.
/// Steps and messages a rank: 2 (P - 1). Bytes: 2 (P - 1) / P blocks. Scratch: P - 2 slots.

#include "engine/algorithms/reduce_ring.h"
#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_ring.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kAllreduce, "ring", shape, me, options);
  const RankRing ring(shape, me);
  const size_t ranks = ring.size();
  program.cut_block(static_cast<uint32_t>(ranks));
  const auto slot = [](size_t place) { return static_cast<Rank>(place); };
  combine_along(
      program, ring, recv_slot(slot(ring.at)), recv_slot(slot((ring.at + 1) % ranks)),
      [&](size_t place) { return send_slot(slot(place)); },
      [&](size_t place) {
        return Block{Block::kCombined, Block::kFirstPart - static_cast<Rank>(place)};
      });
  for (size_t i = 0; i + 1 < ranks; ++i) {
    const Rank passed = slot(ring.place_before(i)), coming = slot(ring.place_before(i + 1));
    program.begin_step(static_cast<uint32_t>(ranks - 1 + i));
    program.begin_stream();
    program.put(ring.next(), recv_slot(passed), recv_slot(passed));
    program.expect(ring.previous(), recv_slot(coming));
    program.end_stream();
  }
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "ring",
    .collectives = {Collective::kAllreduce},
    .summary = "parts are combined along the servers, then run along them",
    .when = "long blocks",
    .source = "Patarasuk, Yuan 2009",
    .relays = true,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
