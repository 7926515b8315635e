/// Chain broadcast: each server sends to the next, so that every port sends and receives each piece
/// once. For blocks of many pieces. Steps: Ns. Messages and bytes: 1 block a server. Scratch: none.

#include "engine/algorithms/bcast_cost.h"
#include "engine/algorithms/bcast_tree.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kBcast, "chain", shape, me, options);
  const ServerLine line(shape, options.root);
  const int place = line.place_of(shape.server_of(me)), places = line.places();
  const auto step = [](int child) { return static_cast<uint32_t>(child - 1); };
  const auto last = static_cast<uint32_t>(places - 1);
  if (me != line.leader(place)) return receive_locally(program, line.leader(place), last);
  std::vector<int> children;
  if (place + 1 < places) children.push_back(place + 1);
  return pass_on(program, line, place, place == 0 ? -1 : line.leader(place - 1),
                 place == 0 ? 0 : step(place), children, step, last);
}

constexpr AlgorithmSpec kSpec{
    .name = "chain",
    .collectives = {Collective::kBcast},
    .summary = "from server to server, piece by piece",
    .when = "long blocks",
    .source = "here",
    .relays = true,
    .relatives = Relatives::kRing,
    .spread = Spread::kChain,
    .cost = chain_cost,
    .pieces = chain_pieces,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
