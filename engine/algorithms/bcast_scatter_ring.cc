/// Broadcast as binomial scatter and ring allgather (Barnett, Shuler, van de Geijn et al. 1994;
/// Thakur, Rabenseifner, Gropp 2005, section 4.3), over the servers: each gets a part of the block,
/// then parts run along the servers until all have all. What the scatter has brought a server does
/// not come again: at place v the ring begins with part v - 1 and ends before the parts of v's
/// subtree. For long blocks.
/// Steps: ceil(log2 Ns) + Ns - 1. Messages: up to Ns - 1 and ceil(log2 Ns). Bytes: in 1 block, out
/// up to 2 blocks (the root). Scratch: none.

#include "engine/algorithms/bcast_cost.h"
#include "engine/algorithms/bcast_parts.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  const auto places = static_cast<uint32_t>(shape.servers());
  const BinomialTree tree{shape.servers()};
  PartedBcast bcast("scatter_ring", shape, me, options, places);
  scatter_parts(bcast, tree);
  const auto place = static_cast<uint32_t>(bcast.place());
  const int next = static_cast<int>((place + 1) % places);
  const int previous = static_cast<int>((place + places - 1) % places);
  // In step i of the ring place v receives part v - 1 - i, and passes on part v - i.
  const uint32_t come = places - scattered(tree, bcast.place());
  const uint32_t go = places - scattered(tree, next);
  for (uint32_t i = 0; i < std::max(come, go); ++i) {
    bcast.begin_step(tree.levels() + i);
    if (i < go) bcast.send(next, place + places - i, 1);
    if (i >= come) continue;
    bcast.receive(previous, place + 2 * places - 1 - i, 1);
    bcast.hand_out(place + 2 * places - 1 - i, 1);
  }
  return bcast.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "scatter_ring",
    .collectives = {Collective::kBcast},
    .summary = "each server gets a part, parts run along the servers",
    .when = "long blocks, few servers",
    .source = "Thakur 2005, section 4.3",
    .relays = true,
    .relatives = Relatives::kRing,
    .spread = Spread::kScatterRing,
    .pieces = tree_pieces,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
