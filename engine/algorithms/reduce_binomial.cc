/// Binomial reduce (Thakur, Rabenseifner, Gropp 2005), of servers or, ordered, of ranks:
/// reduce_tree.cc. For short blocks. Steps: 1 + ceil(log2 Ns), ordered ceil(log2 P) + 1. Messages:
/// 1 of each rank. Bytes: 1 block, ceil(log2 Ns) into the root. Scratch: a slot for each block that
/// comes in, and one.

#include "engine/algorithms/reduce_tree.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  return reduce_along_tree("binomial", false, shape, me, options);
}

constexpr AlgorithmSpec kSpec{
    .name = "binomial",
    .collectives = {Collective::kReduce},
    .summary = "servers combine in pairs, then pairs of them",
    .when = "short blocks",
    .source = "Thakur 2005",
    .relays = true,
    .keeps_order = on_every_shape,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
