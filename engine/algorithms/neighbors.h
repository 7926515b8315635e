#pragma once
/// What the algorithms of the neighbour collectives have in common: the edges of a rank, and those
/// that stay on its server.

#include <vector>

#include "engine/schedule/builder.h"

namespace ibcoll {

/// An edge as one of its ends sees it.
struct NeighborEdge {
  Rank peer = 0;      ///< the other end
  uint32_t copy = 0;  ///< see Graph
  Slice slot;         ///< of the buffer that this end sends from, or receives in
};

/// The edges that leave `rank`, or come to it, in the order of its slots. `graph` may be null.
std::vector<NeighborEdge> edges_from(Collective collective, const Graph* graph, Rank rank);
std::vector<NeighborEdge> edges_to(const Graph* graph, Rank rank);

/// Blocks for ranks of this server, the rank itself included, each straight to its place.
void exchange_local_edges(ProgramBuilder& program, const std::vector<NeighborEdge>& out,
                          const std::vector<NeighborEdge>& in);

}  // namespace ibcoll
