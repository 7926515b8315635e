#include "engine/core/graph_creation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <vector>

#include "engine/base/hash.h"
#include "engine/core/inner_call.h"

namespace ibcoll {
namespace {

Status run(Group& group, CallArguments arguments) {
  arguments.purpose = CallPurpose::kGraph;
  return make_inner_call(group, arguments);
}

Status allreduce(Group& group, std::span<uint64_t> values, Operator op) {
  CallArguments arguments;
  arguments.collective = Collective::kAllreduce;
  arguments.in_place = true;
  arguments.recv = values.data();
  arguments.block_bytes = values.size_bytes();
  IBCOLL_ASSIGN(arguments.reduction, find_reduction(ElementType::kUint64, op));
  return run(group, arguments);
}

Status bcast(Group& group, Rank root, void* data, size_t bytes) {
  CallArguments arguments;
  arguments.collective = Collective::kBcast;
  arguments.root = root;
  arguments.send = data;
  arguments.recv = data;
  arguments.block_bytes = bytes;
  return run(group, arguments);
}

/// What is wrong with a rank's lists, whatever the others pass; empty: nothing.
std::string check_list(const char* what, int64_t count, const Rank* peers, int ranks) {
  if (count < 0 || count > std::numeric_limits<int>::max())
    return fmt::format("{} {} make no graph", count, what);
  if (count != 0 && peers == nullptr) return fmt::format("the list of its {} is null", what);
  for (int64_t i = 0; i < count; ++i) {
    if (peers[i] < 0 || peers[i] >= ranks) {
      return fmt::format("{} is among its {}: the group's ranks are 0 to {}", peers[i], what,
                         ranks - 1);
    }
  }
  const uint32_t most = Graph::most_copies(ranks);
  if (count <= int64_t{most}) return "";
  std::unordered_map<Rank, uint32_t> times;
  for (int64_t i = 0; i < count; ++i) {
    if (++times[peers[i]] > most)
      return fmt::format("{} is more than {} times among its {}", peers[i], most, what);
  }
  return "";
}

std::string check_lists(const GraphLists& lists, int ranks) {
  if (!lists.refused.empty()) return std::string(lists.refused);
  std::string wrong = check_list("sources", lists.sources, lists.source_ranks, ranks);
  return wrong.empty()
             ? check_list("destinations", lists.destinations, lists.destination_ranks, ranks)
             : wrong;
}

/// One rank of this server with all others, and with itself: nothing has to be asked for this one.
std::shared_ptr<const Graph> graph_of_server(const Group& group) {
  const Shape& shape = group.shape();
  const auto members = shape.members(shape.server_of(group.rank()));
  Graph::Neighbours all;
  all.sources.assign(members.begin(), members.end());
  all.destinations = all.sources;
  auto graph =
      std::make_shared<Graph>(shape.ranks(), std::vector<Rank>{group.rank()}, std::span(&all, 1));
  constexpr uint64_t kOfServers = 0x73657276;
  graph->agree(mix(shape.hash(), kOfServers), {});
  return graph;
}

/// The lists of all ranks of this server, in the order of its local ranks.
Result<std::vector<Graph::Neighbours>> exchange_lists(Group& group, const Graph::Neighbours& own) {
  const Shape& shape = group.shape();
  // All ranks of a group make the same calls, also those that are alone on their server.
  if (shape.max_server_size() == 1) return std::vector<Graph::Neighbours>{own};
  const auto size = static_cast<size_t>(shape.server_size(shape.server_of(group.rank())));
  struct Sizes {
    int64_t sources, destinations;
  };
  const Sizes mine{static_cast<int64_t>(own.sources.size()),
                   static_cast<int64_t>(own.destinations.size())};
  std::vector<Sizes> sizes(size);
  CallArguments arguments;
  arguments.collective = Collective::kNeighborAllgather;
  arguments.options.graph = graph_of_server(group);
  arguments.options.algorithm = "direct";  // on one server there is nothing to aggregate
  arguments.send = &mine;
  arguments.recv = sizes.data();
  arguments.block_bytes = sizeof(Sizes);
  IBCOLL_TRY(run(group, arguments));

  std::vector<Rank> sent = own.sources;
  sent.insert(sent.end(), own.destinations.begin(), own.destinations.end());
  std::vector<int64_t> counts, places;
  int64_t bytes = 0;
  for (const Sizes& each : sizes) {
    places.push_back(bytes);
    counts.push_back((each.sources + each.destinations) * int64_t{sizeof(Rank)});
    bytes += counts.back();
  }
  std::vector<Rank> received(static_cast<size_t>(bytes) / sizeof(Rank));
  arguments.collective = Collective::kNeighborAllgatherv;
  arguments.send = sent.data();
  arguments.own_count = static_cast<int64_t>(sent.size() * sizeof(Rank));
  arguments.recv = received.data();
  arguments.recv_counts = counts.data();
  arguments.recv_displacements = places.data();
  IBCOLL_TRY(run(group, arguments));

  std::vector<Graph::Neighbours> all;
  auto next = received.begin();
  for (const Sizes& each : sizes) {
    const auto middle = next + each.sources, end = middle + each.destinations;
    all.push_back({{next, middle}, {middle, end}});
    next = end;
  }
  return all;
}

/// The error of the lowest rank whose lists can't be right, on all ranks.
Status tell_wrong_lists(Group& group, const std::string& wrong) {
  std::array<uint64_t, 1> culprit{wrong.empty() ? std::numeric_limits<uint64_t>::max()
                                                : static_cast<uint64_t>(group.rank())};
  IBCOLL_TRY(allreduce(group, culprit, Operator::kMin));
  const auto rank = static_cast<Rank>(culprit[0]);
  std::array<char, 256> text{};
  if (rank == group.rank()) wrong.copy(text.data(), text.size() - 1);
  IBCOLL_TRY(bcast(group, rank, text.data(), text.size()));
  return fail(ErrorCode::kInvalidArgument, "graph: rank {}: {}",
              group.state().to_job[static_cast<size_t>(rank)], text.data());
}

/// The error of the lowest pair of ranks that disagree, on all ranks.
Status tell_disagreement(Group& group, const Graph::Neighbours& own) {
  struct Edges {
    uint32_t to, from;  ///< that lead to the other rank, and come from it
  };
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<Edges> mine(ranks), theirs(ranks);
  for (const Rank peer : own.destinations) ++mine[static_cast<size_t>(peer)].to;
  for (const Rank peer : own.sources) ++mine[static_cast<size_t>(peer)].from;
  CallArguments arguments;
  arguments.collective = Collective::kAlltoall;
  arguments.send = mine.data();
  arguments.recv = theirs.data();
  arguments.block_bytes = sizeof(Edges);
  IBCOLL_TRY(run(group, arguments));
  std::array<uint64_t, 1> pair{std::numeric_limits<uint64_t>::max()};
  const auto me = static_cast<uint64_t>(group.rank());
  for (size_t peer = ranks; peer-- > 0;) {
    if (mine[peer].to != theirs[peer].from) pair[0] = me << 32 | peer;
  }
  IBCOLL_TRY(allreduce(group, pair, Operator::kMin));
  if (pair[0] == std::numeric_limits<uint64_t>::max())
    return fail(ErrorCode::kInternal, "graph: its sums differ, but no two ranks do");
  const auto from = static_cast<Rank>(pair[0] >> 32), to = static_cast<Rank>(pair[0] & 0xffffffff);
  std::array<uint32_t, 2> edges{mine[static_cast<size_t>(to)].to,
                                theirs[static_cast<size_t>(to)].from};
  IBCOLL_TRY(bcast(group, from, edges.data(), sizeof edges));
  const RankSpan to_job = group.state().to_job;
  return fail(ErrorCode::kMismatch, "graph: {}",
              disagreement(to_job[static_cast<size_t>(from)], edges[0],
                           to_job[static_cast<size_t>(to)], edges[1]));
}

}  // namespace

Result<std::shared_ptr<const Graph>> create_graph(Group& group, const GraphLists& lists) {
  const Shape& shape = group.shape();
  const int server = shape.server_of(group.rank());
  const std::string wrong = check_lists(lists, group.size());
  Graph::Neighbours own;
  if (wrong.empty()) {
    own.sources.assign(lists.source_ranks, lists.source_ranks + lists.sources);
    own.destinations.assign(lists.destination_ranks, lists.destination_ranks + lists.destinations);
  }
  IBCOLL_ASSIGN(const std::vector<Graph::Neighbours> of_server, exchange_lists(group, own));
  const auto members = shape.members(server);
  auto graph = std::make_shared<Graph>(
      group.size(), std::vector<Rank>(members.begin(), members.end()), of_server);

  const Graph::Part part = Graph::part_of(group.rank(), own);
  // One rank of each server speaks for it.
  const Graph::Totals totals =
      shape.local_of(group.rank()) == 0 ? graph->totals_of(shape, server) : Graph::Totals{};
  std::array<uint64_t, 8> sums{
      wrong.empty() ? 0u : 1u, part.open[0],   part.open[1], part.hash, totals.edges,
      totals.crossing,         totals.origins, totals.pairs};
  IBCOLL_TRY(allreduce(group, sums, Operator::kSum));
  const auto [wrong_ranks, first_open, second_open, hash, edges, crossing, origins, pairs] = sums;
  if (wrong_ranks != 0) IBCOLL_TRY(tell_wrong_lists(group, wrong));
  if (first_open != 0 || second_open != 0) IBCOLL_TRY(tell_disagreement(group, own));
  graph->agree(hash, {edges, crossing, origins, pairs});
  return graph;
}

}  // namespace ibcoll
