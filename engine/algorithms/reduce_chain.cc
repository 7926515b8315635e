/// Chain reduce: each server sends to the one before, so that every port sends and receives each
/// piece once: reduce_tree.cc. For blocks of many pieces. Steps: Ns. Messages and bytes: 1 block a
/// server. Scratch: a slot for each block that comes in, and one.

#include "engine/algorithms/reduce_tree.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  return reduce_along_tree("chain", true, shape, me, options);
}

constexpr AlgorithmSpec kSpec{
    .name = "chain",
    .collectives = {Collective::kReduce},
    .summary = "from server to server, piece by piece",
    .when = "long blocks",
    .source = "here",
    .relays = true,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
