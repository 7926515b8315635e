#include "engine/schedule/collective.h"

#include <fmt/ranges.h>

#include <vector>

namespace ibcoll {
namespace {

/// An edge of the graph, of which `me` is one end: the other end, and the copy.
struct SlotEdge {
  Rank from = 0, to = 0;
  uint32_t copy = 0;
};

SlotEdge edge_of(Rank me, bool sent, uint32_t slot, const Graph& graph) {
  if (sent) return {me, graph.destinations(me)[slot], graph.destination_copies(me)[slot]};
  return {graph.sources(me)[slot], me, graph.source_copies(me)[slot]};
}

Block block_of(const SideTraits& side, bool sent, Rank me, Rank root, uint32_t slot,
               const Graph* graph) {
  SlotEdge edge;
  if (side.slots == Slots::kEachNeighbor) edge = edge_of(me, sent, slot, *graph);
  const auto rank_at = [&](End end, Rank of_edge) -> Rank {
    switch (end) {
      case End::kMe:
        return me;
      case End::kRoot:
        return root;
      case End::kSlot:
        return static_cast<Rank>(slot);
      case End::kEdge:
        return of_edge;
      case End::kEveryone:
        return Block::kEveryone;
      case End::kCombined:
        break;
    }
    return Block::kCombined;
  };
  const Rank edge_target =
      side.target == End::kEdge ? graph->target(edge.to, edge.copy) : Block::kNobody;
  return {rank_at(side.origin, edge.from), rank_at(side.target, edge_target)};
}

}  // namespace

Block send_block(Collective collective, Rank me, Rank root, uint32_t slot, const Graph* graph) {
  return block_of(traits(collective).send, true, me, root, slot, graph);
}

Block recv_block(Collective collective, Rank me, Rank root, uint32_t slot, const Graph* graph) {
  return block_of(traits(collective).recv, false, me, root, slot, graph);
}

Rank contributors(Collective collective, const Shape& shape, Rank me) {
  switch (traits(collective).combines) {
    case Combines::kUpToMe:
      return me + 1;
    case Combines::kBeforeMe:
      return me;
    default:
      return shape.ranks();
  }
}

std::string collective_names() {
  std::vector<const char*> names;
  for (const CollectiveTraits& row : kCollectiveTraits) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<Collective> parse_collective(std::string_view text) {
  for (const CollectiveTraits& row : kCollectiveTraits) {
    if (text == row.name) return row.collective;
  }
  return fail(ErrorCode::kInvalidArgument, "unknown collective '{}': one of {}", text,
              collective_names());
}

}  // namespace ibcoll
