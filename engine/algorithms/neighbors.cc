#include "engine/algorithms/neighbors.h"

#include <algorithm>

namespace ibcoll {

std::vector<NeighborEdge> edges_from(Collective collective, const Graph* graph, Rank rank) {
  std::vector<NeighborEdge> edges;
  if (graph == nullptr) return edges;
  const auto peers = graph->destinations(rank);
  const auto copies = graph->destination_copies(rank);
  edges.reserve(peers.size());
  const bool one = same_for_all(collective);
  for (uint32_t i = 0; i < peers.size(); ++i) {
    edges.push_back({peers[i], copies[i], {Buffer::kSend, one ? 0 : i, 1}});
  }
  return edges;
}

std::vector<NeighborEdge> edges_to(const Graph* graph, Rank rank) {
  std::vector<NeighborEdge> edges;
  if (graph == nullptr) return edges;
  const auto peers = graph->sources(rank);
  const auto copies = graph->source_copies(rank);
  edges.reserve(peers.size());
  for (uint32_t i = 0; i < peers.size(); ++i) {
    edges.push_back({peers[i], copies[i], {Buffer::kRecv, i, 1}});
  }
  return edges;
}

void exchange_local_edges(ProgramBuilder& program, const std::vector<NeighborEdge>& out,
                          const std::vector<NeighborEdge>& in) {
  const Rank me = program.me();
  const auto local = [&](const std::vector<NeighborEdge>& edges) {
    std::vector<NeighborEdge> result;
    for (const NeighborEdge& edge : edges) {
      if (program.shape().same_server(edge.peer, me)) result.push_back(edge);
    }
    // A put waits until the one before to the same rank is taken: first copies go first on all
    // ranks, so that nobody's second one stands before what its receiver needs first.
    std::stable_sort(result.begin(), result.end(),
                     [](const NeighborEdge& a, const NeighborEdge& b) { return a.copy < b.copy; });
    return result;
  };
  const std::vector<NeighborEdge> sent = local(out), received = local(in);
  size_t i = 0, j = 0;
  for (uint32_t copy = 0; i < sent.size() || j < received.size(); ++copy) {
    program.begin_relaxed();
    const size_t first = i;
    for (; i < sent.size() && sent[i].copy == copy; ++i) {
      if (sent[i].peer != me) program.put(sent[i].peer, sent[i].slot);
    }
    for (; j < received.size() && received[j].copy == copy; ++j) {
      if (received[j].peer != me) {
        program.expect(received[j].peer, received[j].slot);
        continue;
      }
      const auto own = std::find_if(sent.begin() + static_cast<ptrdiff_t>(first), sent.end(),
                                    [&](const NeighborEdge& edge) { return edge.peer == me; });
      program.copy(received[j].slot, own->slot);
    }
    program.end_relaxed();
  }
}

}  // namespace ibcoll
