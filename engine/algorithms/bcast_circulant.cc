/// Pipelined broadcast on a circulant graph of the servers (Träff 2023, circulant.h): every server
/// sends and receives one part of the block in each round. For long blocks on networks that carry
/// every permutation of the servers at full rate: in most rounds all servers send far.
/// Steps: parts - 1 + ceil(log2 Ns), the fewest there can be. Messages: one a step at most. Bytes:
/// in 1 block, out as many parts as there are steps at most (the root). Scratch: none.

#include "engine/algorithms/bcast_cost.h"
#include "engine/algorithms/bcast_parts.h"
#include "engine/algorithms/circulant.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  const CirculantGraph graph(shape.servers());
  const uint32_t parts = std::clamp<uint32_t>(options.cut, 1, kMaxCut);
  PartedBcast bcast("circulant", shape, me, options, parts);
  const int place = bcast.place(), places = graph.places();
  if (place == 0) bcast.hand_out(0, parts);
  const CirculantReceipts come(graph, place, parts);
  std::vector<CirculantReceipts> go;  // by neighbour
  for (int k = 0; k < graph.degree(); ++k) {
    go.emplace_back(graph, (place + graph.skip(k)) % places, parts);
  }
  const uint32_t rounds = graph.degree() == 0 ? 0 : parts - 1 + graph.degree();
  for (uint32_t round = 0; round < rounds; ++round) {
    const int k = come.neighbour(round);
    bcast.begin_step(round);
    if (const auto part = go[k].block(round)) {
      bcast.send((place + graph.skip(k)) % places, *part, 1);
    }
    if (const auto part = come.block(round)) {
      bcast.receive((place + places - graph.skip(k)) % places, *part, 1);
      bcast.hand_out(*part, 1);
    }
  }
  return bcast.finish();
}

uint32_t pieces(const Shape& shape, int64_t bytes) {
  return pipeline_pieces(shape, bytes, doubling_steps(shape));
}

constexpr AlgorithmSpec kSpec{
    .name = "circulant",
    .collectives = {Collective::kBcast},
    .summary = "every server sends and receives a part in each step",
    .when = "long blocks, full bisection",
    .source = "Träff 2023 (arXiv:2312.11236)",
    .relays = true,
    .cuts = true,
    .spread = Spread::kCirculant,
    .pieces = pieces,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
