#include "engine/schedule/collective.h"

#include <fmt/ranges.h>

#include <vector>

namespace ibcoll {

bool has_root(Collective collective) {
  switch (collective) {
    case Collective::kGather:
    case Collective::kGatherv:
    case Collective::kScatter:
    case Collective::kScatterv:
    case Collective::kBcast:
    case Collective::kReduce:
      return true;
    default:
      return false;
  }
}

bool is_one_way(Collective collective) {
  return has_root(collective) || collective == Collective::kScan ||
         collective == Collective::kExscan;
}

bool is_unequal(Collective collective) {
  return collective == Collective::kAlltoallv || collective == Collective::kAlltoallw ||
         collective == Collective::kAllgatherv || collective == Collective::kGatherv ||
         collective == Collective::kScatterv || collective == Collective::kReduceScatter ||
         collective == Collective::kNeighborAllgatherv ||
         collective == Collective::kNeighborAlltoallv ||
         collective == Collective::kNeighborAlltoallw;
}

bool is_alltoall(Collective collective) {
  return collective == Collective::kAlltoall || collective == Collective::kAlltoallv ||
         collective == Collective::kAlltoallw;
}

bool is_neighbor_alltoall(Collective collective) {
  return collective == Collective::kNeighborAlltoall ||
         collective == Collective::kNeighborAlltoallv ||
         collective == Collective::kNeighborAlltoallw;
}

bool has_blocks(Collective collective) {
  return collective == Collective::kAlltoallw || collective == Collective::kNeighborAlltoallw;
}

bool has_graph(Collective collective) {
  switch (collective) {
    case Collective::kNeighborAllgather:
    case Collective::kNeighborAllgatherv:
    case Collective::kNeighborAlltoall:
    case Collective::kNeighborAlltoallv:
    case Collective::kNeighborAlltoallw:
      return true;
    default:
      return false;
  }
}

bool reduces(Collective collective) {
  switch (collective) {
    case Collective::kReduce:
    case Collective::kAllreduce:
    case Collective::kReduceScatter:
    case Collective::kReduceScatterBlock:
    case Collective::kScan:
    case Collective::kExscan:
      return true;
    default:
      return false;
  }
}

bool lies_side_by_side(Collective collective) {
  return !is_unequal(collective) || collective == Collective::kReduceScatter;
}

bool knows_all_lengths(Collective collective) {
  return !is_unequal(collective) || collective == Collective::kAllgatherv ||
         collective == Collective::kReduceScatter;
}

uint32_t send_slots(Collective collective, const Shape& shape, Rank me, Rank root,
                    const Graph* graph) {
  const auto ranks = static_cast<uint32_t>(shape.ranks());
  switch (collective) {
    case Collective::kAlltoall:
    case Collective::kAlltoallv:
    case Collective::kAlltoallw:
    case Collective::kReduceScatter:
    case Collective::kReduceScatterBlock:
      return ranks;
    case Collective::kAllgather:
    case Collective::kAllgatherv:
    case Collective::kGather:
    case Collective::kGatherv:
    case Collective::kReduce:
    case Collective::kAllreduce:
    case Collective::kScan:
    case Collective::kExscan:
      return 1;
    case Collective::kScatter:
    case Collective::kScatterv:
      return me == root ? ranks : 0;
    case Collective::kBcast:
      return me == root ? 1 : 0;
    case Collective::kNeighborAllgather:
    case Collective::kNeighborAllgatherv:
      return 1;
    case Collective::kNeighborAlltoall:
    case Collective::kNeighborAlltoallv:
    case Collective::kNeighborAlltoallw:
      return graph == nullptr ? 0 : static_cast<uint32_t>(graph->destinations(me).size());
    case Collective::kBarrier:
      break;
  }
  return 0;
}

uint32_t recv_slots(Collective collective, const Shape& shape, Rank me, Rank root,
                    const Graph* graph) {
  const auto ranks = static_cast<uint32_t>(shape.ranks());
  switch (collective) {
    case Collective::kAlltoall:
    case Collective::kAlltoallv:
    case Collective::kAlltoallw:
    case Collective::kAllgather:
    case Collective::kAllgatherv:
      return ranks;
    case Collective::kGather:
    case Collective::kGatherv:
      return me == root ? ranks : 0;
    case Collective::kScatter:
    case Collective::kScatterv:
    case Collective::kAllreduce:
    case Collective::kReduceScatter:
    case Collective::kReduceScatterBlock:
    case Collective::kScan:
      return 1;
    case Collective::kExscan:
      return me == 0 ? 0 : 1;
    case Collective::kBcast:
      return me == root ? 0 : 1;
    case Collective::kReduce:
      return me == root ? 1 : 0;
    case Collective::kNeighborAllgather:
    case Collective::kNeighborAllgatherv:
    case Collective::kNeighborAlltoall:
    case Collective::kNeighborAlltoallv:
    case Collective::kNeighborAlltoallw:
      return graph == nullptr ? 0 : static_cast<uint32_t>(graph->sources(me).size());
    case Collective::kBarrier:
      break;
  }
  return 0;
}

Block send_block(Collective collective, Rank me, Rank root, uint32_t slot, const Graph* graph) {
  switch (collective) {
    case Collective::kAllgather:
    case Collective::kAllgatherv:
    case Collective::kBcast:
    case Collective::kNeighborAllgather:
    case Collective::kNeighborAllgatherv:
      return {me, Block::kEveryone};
    case Collective::kNeighborAlltoall:
    case Collective::kNeighborAlltoallv:
    case Collective::kNeighborAlltoallw:
      return {me,
              graph->target(graph->destinations(me)[slot], graph->destination_copies(me)[slot])};
    case Collective::kGather:
    case Collective::kGatherv:
      return {me, root};
    case Collective::kReduce:
      return {Block::kCombined, root};
    case Collective::kReduceScatter:
    case Collective::kReduceScatterBlock:
      return {Block::kCombined, static_cast<Rank>(slot)};
    case Collective::kAllreduce:
    case Collective::kScan:
    case Collective::kExscan:
      return {Block::kCombined, Block::kEveryone};
    default:
      return {me, static_cast<Rank>(slot)};
  }
}

Block recv_block(Collective collective, Rank me, Rank root, uint32_t slot, const Graph* graph) {
  switch (collective) {
    case Collective::kAllgather:
    case Collective::kAllgatherv:
      return {static_cast<Rank>(slot), Block::kEveryone};
    case Collective::kNeighborAllgather:
    case Collective::kNeighborAllgatherv:
      return {graph->sources(me)[slot], Block::kEveryone};
    case Collective::kNeighborAlltoall:
    case Collective::kNeighborAlltoallv:
    case Collective::kNeighborAlltoallw:
      return {graph->sources(me)[slot], graph->target(me, graph->source_copies(me)[slot])};
    case Collective::kScatter:
    case Collective::kScatterv:
      return {root, me};
    case Collective::kBcast:
      return {root, Block::kEveryone};
    case Collective::kReduce:
      return {Block::kCombined, root};
    case Collective::kReduceScatter:
    case Collective::kReduceScatterBlock:
      return {Block::kCombined, me};
    case Collective::kAllreduce:
    case Collective::kScan:
    case Collective::kExscan:
      return {Block::kCombined, Block::kEveryone};
    default:
      return {static_cast<Rank>(slot), me};
  }
}

Rank contributors(Collective collective, const Shape& shape, Rank me) {
  return collective == Collective::kScan     ? me + 1
         : collective == Collective::kExscan ? me
                                             : shape.ranks();
}

const char* to_string(Collective collective) {
  switch (collective) {
    case Collective::kAlltoall:
      return "alltoall";
    case Collective::kAlltoallv:
      return "alltoallv";
    case Collective::kAlltoallw:
      return "alltoallw";
    case Collective::kAllgather:
      return "allgather";
    case Collective::kAllgatherv:
      return "allgatherv";
    case Collective::kGather:
      return "gather";
    case Collective::kGatherv:
      return "gatherv";
    case Collective::kScatter:
      return "scatter";
    case Collective::kScatterv:
      return "scatterv";
    case Collective::kBcast:
      return "bcast";
    case Collective::kReduce:
      return "reduce";
    case Collective::kBarrier:
      return "barrier";
    case Collective::kAllreduce:
      return "allreduce";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kReduceScatterBlock:
      return "reduce_scatter_block";
    case Collective::kScan:
      return "scan";
    case Collective::kExscan:
      return "exscan";
    case Collective::kNeighborAllgather:
      return "neighbor_allgather";
    case Collective::kNeighborAllgatherv:
      return "neighbor_allgatherv";
    case Collective::kNeighborAlltoall:
      return "neighbor_alltoall";
    case Collective::kNeighborAlltoallv:
      return "neighbor_alltoallv";
    case Collective::kNeighborAlltoallw:
      return "neighbor_alltoallw";
  }
  return "?";
}

std::string collective_names() {
  std::vector<const char*> names;
  for (const Collective collective : kCollectives) names.push_back(to_string(collective));
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<Collective> parse_collective(std::string_view text) {
  for (const Collective collective : kCollectives) {
    if (text == to_string(collective)) return collective;
  }
  return fail(ErrorCode::kInvalidArgument, "unknown collective '{}': one of {}", text,
              collective_names());
}

}  // namespace ibcoll
