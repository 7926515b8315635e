/// Direct neighbour allgather(v) and alltoall(v): each block from its origin straight to its place,
/// in any order. A rank exposes itself to those alone that send to it.
/// Source: MPICH's and Open MPI's neighbour collectives ("linear"); Hoefler and Traeff, "Sparse
/// collective operations for MPI" (2009).
/// Steps: 1. Messages a rank: one a destination. Bytes: its blocks. Scratch: none.

#include "engine/algorithms/neighbors.h"
#include "engine/algorithms/registry.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "direct", shape, me, options);
  const Graph* const graph = options.graph.get();
  const std::vector<NeighborEdge> out = edges_from(collective, graph, me);
  const std::vector<NeighborEdge> in = edges_to(graph, me);
  program.begin_relaxed();
  for (const NeighborEdge& edge : out) {
    if (!shape.same_server(edge.peer, me)) program.put(edge.peer, edge.slot);
  }
  for (const NeighborEdge& edge : in) {
    if (!shape.same_server(edge.peer, me)) program.expect(edge.peer, edge.slot);
  }
  program.end_relaxed();
  exchange_local_edges(program, out, in);
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "direct",
    .collectives = {Collective::kNeighborAllgather, Collective::kNeighborAllgatherv,
                    Collective::kNeighborAlltoall, Collective::kNeighborAlltoallv,
                    Collective::kNeighborAlltoallw},
    .summary = "each block straight to its place, in any order",
    .when = "large blocks, or few neighbours on each other server",
    .source = "MPICH, Open MPI (linear); Hoefler 2009",
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
