/// Binomial broadcast (Thakur, Rabenseifner, Gropp 2005) over the servers: those that have the
/// block double in each step. For short blocks. Steps: ceil(log2 Ns) + 1. Messages and bytes: up to
/// ceil(log2 Ns) blocks of the root. Scratch: none.

#include <algorithm>

#include "engine/algorithms/bcast_cost.h"
#include "engine/algorithms/bcast_tree.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kBcast, "binomial", shape, me, options);
  const ServerLine line(shape, options.root);
  const BinomialTree tree{line.places()};
  const int place = line.place_of(shape.server_of(me));
  const uint32_t levels = tree.levels();
  const auto step = [&](int child) { return levels - 1 - tree.level(child); };
  if (me != line.leader(place)) return receive_locally(program, line.leader(place), levels);
  std::vector<int> children = tree.children(place);
  std::reverse(children.begin(), children.end());  // the one with most below it first
  return pass_on(program, line, place, place == 0 ? -1 : line.leader(tree.parent(place)),
                 place == 0 ? 0 : step(place), children, step, levels);
}

constexpr AlgorithmSpec kSpec{
    .name = "binomial",
    .collectives = {Collective::kBcast},
    .summary = "servers that have the block double in each step",
    .when = "short blocks",
    .source = "Thakur 2005",
    .relays = true,
    .relatives = Relatives::kChildren,
    .spread = Spread::kTree,
    .cost = tree_cost,
    .pieces = tree_pieces,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
