/// Ring reduce_scatter(_block): what is for a rank is combined along the ring of ranks until it
/// comes to it (reduce_ring.h); each step is a stream. For long blocks. Source: the first half of
/// the ring allreduce (Patarasuk, Yuan 2009).
/// Steps and messages a rank: P - 1. Bytes: P - 1 blocks. Scratch: P - 2 slots.

#include "engine/algorithms/reduce_ring.h"
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
  combine_along(
      program, ring, recv_slot(0), recv_slot(0),
      [&](size_t place) { return send_slot(ring.ranks[place]); },
      [&](size_t place) {
        return Block{Block::kCombined, ring.ranks[place]};
      });
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "ring",
    .collectives = {Collective::kReduceScatter, Collective::kReduceScatterBlock},
    .summary = "blocks are combined along the servers, piece by piece",
    .when = "long blocks",
    .source = "Patarasuk, Yuan 2009",
    .relays = true,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
