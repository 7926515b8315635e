#include "engine/schedule/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "engine/base/hash.h"

namespace ibcoll {
namespace {

/// By place in a list: how often the same rank stands before it.
std::vector<uint32_t> count_copies(std::span<const Rank> peers) {
  std::unordered_map<Rank, uint32_t> seen;
  std::vector<uint32_t> copies;
  copies.reserve(peers.size());
  for (const Rank peer : peers) copies.push_back(seen[peer]++);
  return copies;
}

uint64_t hash_of(uint64_t kind, Rank from, Rank to, uint32_t copy) {
  const auto ends = static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
  return mix(mix(kind, ends), copy);
}

Status check_ranks(const Shape& shape, Rank rank, const std::vector<Rank>& peers) {
  for (const Rank peer : peers) {
    if (peer >= 0 && peer < shape.ranks()) continue;
    return fail(ErrorCode::kInvalidArgument, "rank {} has the neighbour {}: the ranks are 0 to {}",
                rank, peer, shape.ranks() - 1);
  }
  return {};
}

/// Of edges (from, to), sorted: the first pair that is not in both as often.
Status check_agreement(std::vector<std::pair<Rank, Rank>> sent,
                       std::vector<std::pair<Rank, Rank>> expected) {
  std::sort(sent.begin(), sent.end());
  std::sort(expected.begin(), expected.end());
  const auto [a, b] = std::mismatch(sent.begin(), sent.end(), expected.begin(), expected.end());
  if (a == sent.end() && b == expected.end()) return {};
  const auto pair = a == sent.end() ? *b : b == expected.end() ? *a : std::min(*a, *b);
  const auto times = [&](const auto& edges) {
    return static_cast<uint64_t>(std::count(edges.begin(), edges.end(), pair));
  };
  return fail(ErrorCode::kMismatch, "{}",
              disagreement(pair.first, times(sent), pair.second, times(expected)));
}

}  // namespace

std::string disagreement(Rank from, uint64_t sends, Rank to, uint64_t expects) {
  const auto edges = [](uint64_t count) {
    return fmt::format("{} edge{}", count, count == 1 ? "" : "s");
  };
  return fmt::format("rank {} has {} to rank {}, which has {} from it", from, edges(sends), to,
                     edges(expects));
}

uint32_t Graph::most_copies(int ranks) { return static_cast<uint32_t>(INT32_MAX / ranks); }

Graph::Graph(int ranks, std::vector<Rank> known, std::span<const Neighbours> neighbours)
    : ranks_(ranks), known_(std::move(known)) {
  for (const Neighbours& each : neighbours) {
    append(each.sources, sources_);
    append(each.destinations, destinations_);
  }
  for (Lists* lists : {&sources_, &destinations_}) {
    lists->first.push_back(static_cast<uint32_t>(lists->peers.size()));
    lists->peers.shrink_to_fit();
    lists->copies.shrink_to_fit();
  }
}

void Graph::agree(uint64_t sum_of_hashes, const Totals& totals) {
  hash_ = mix(sum_of_hashes, static_cast<uint64_t>(ranks_));
  totals_ = totals;
}

void Graph::append(const std::vector<Rank>& peers, Lists& lists) {
  lists.first.push_back(static_cast<uint32_t>(lists.peers.size()));
  lists.peers.insert(lists.peers.end(), peers.begin(), peers.end());
  const std::vector<uint32_t> copies = count_copies(peers);
  lists.copies.insert(lists.copies.end(), copies.begin(), copies.end());
}

Result<std::shared_ptr<const Graph>> Graph::create(const Shape& shape,
                                                   std::span<const Neighbours> of_rank) {
  const int ranks = shape.ranks();
  if (of_rank.size() != static_cast<size_t>(ranks)) {
    return fail(ErrorCode::kInvalidArgument, "the graph has {} ranks, the shape {}", of_rank.size(),
                ranks);
  }
  std::vector<std::pair<Rank, Rank>> sent, expected;
  uint64_t hash = 0;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const Neighbours& mine = of_rank[static_cast<size_t>(rank)];
    IBCOLL_TRY(check_ranks(shape, rank, mine.sources));
    IBCOLL_TRY(check_ranks(shape, rank, mine.destinations));
    for (const Rank to : mine.destinations) sent.emplace_back(rank, to);
    for (const Rank from : mine.sources) expected.emplace_back(from, rank);
    hash += part_of(rank, mine).hash;
  }
  IBCOLL_TRY(check_agreement(std::move(sent), std::move(expected)));
  std::vector<Rank> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  auto graph = std::make_shared<Graph>(ranks, std::move(all), of_rank);
  Totals totals;
  for (int server = 0; server < shape.servers(); ++server) {
    const Totals of_server = graph->totals_of(shape, server);
    totals.edges += of_server.edges;
    totals.crossing += of_server.crossing;
    totals.origins += of_server.origins;
    totals.pairs += of_server.pairs;
  }
  graph->agree(hash, totals);
  return graph;
}

Result<std::shared_ptr<const Graph>> Graph::create(const Shape& shape,
                                                   std::span<const Edge> edges) {
  std::vector<Neighbours> of_rank(static_cast<size_t>(shape.ranks()));
  for (const Edge& edge : edges) {
    IBCOLL_TRY(check_ranks(shape, edge.from, {edge.to}));
    IBCOLL_TRY(check_ranks(shape, edge.to, {edge.from}));
    of_rank[static_cast<size_t>(edge.from)].destinations.push_back(edge.to);
    of_rank[static_cast<size_t>(edge.to)].sources.push_back(edge.from);
  }
  return create(shape, of_rank);
}

size_t Graph::find(Rank rank) const {
  // All of them, mostly: then a rank stands in the place of its number.
  if (rank >= 0 && static_cast<size_t>(rank) < known_.size() &&
      known_[static_cast<size_t>(rank)] == rank)
    return static_cast<size_t>(rank);
  const auto at = std::lower_bound(known_.begin(), known_.end(), rank);
  return at != known_.end() && *at == rank ? static_cast<size_t>(at - known_.begin())
                                           : known_.size();
}

Graph::List Graph::list(const Lists& lists, Rank rank) const {
  const size_t place = find(rank);
  if (place == known_.size()) return {};
  const uint32_t first = lists.first[place], count = lists.first[place + 1] - first;
  return {std::span(lists.peers).subspan(first, count),
          std::span(lists.copies).subspan(first, count)};
}

size_t Graph::memory_bytes() const {
  size_t bytes = sizeof *this + known_.capacity() * sizeof(Rank);
  for (const Lists* lists : {&sources_, &destinations_}) {
    bytes += lists->first.capacity() * sizeof(uint32_t) + lists->peers.capacity() * sizeof(Rank) +
             lists->copies.capacity() * sizeof(uint32_t);
  }
  return bytes;
}

Graph::Part Graph::part_of(Rank rank, const Neighbours& neighbours) {
  enum : uint64_t { kOrder = 1, kFirst, kSecond };
  Part part{mix(kOrder, static_cast<uint64_t>(rank)), {0, 0}};
  const auto add = [&](const std::vector<Rank>& peers, bool sends) {
    const std::vector<uint32_t> copies = count_copies(peers);
    part.hash = mix(part.hash, peers.size());
    for (size_t i = 0; i < peers.size(); ++i) {
      part.hash = mix(part.hash, static_cast<uint64_t>(peers[i]));
      const Rank from = sends ? rank : peers[i], to = sends ? peers[i] : rank;
      const uint64_t first = hash_of(kFirst, from, to, copies[i]);
      const uint64_t second = hash_of(kSecond, from, to, copies[i]);
      part.open[0] += sends ? first : -first;
      part.open[1] += sends ? second : -second;
    }
  };
  add(neighbours.destinations, true);
  add(neighbours.sources, false);
  return part;
}

Graph::Totals Graph::totals_of(const Shape& shape, int server) const {
  Totals totals;
  std::vector<std::pair<int, Rank>> crossing;  // target server, origin
  for (const Rank rank : shape.members(server)) {
    for (const Rank to : destinations(rank)) {
      ++totals.edges;
      if (!shape.same_server(rank, to)) crossing.emplace_back(shape.server_of(to), rank);
    }
  }
  totals.crossing = crossing.size();
  std::sort(crossing.begin(), crossing.end());
  crossing.erase(std::unique(crossing.begin(), crossing.end()), crossing.end());
  totals.origins = crossing.size();
  const auto same_server = [](const auto& a, const auto& b) { return a.first == b.first; };
  crossing.erase(std::unique(crossing.begin(), crossing.end(), same_server), crossing.end());
  totals.pairs = crossing.size();
  return totals;
}

}  // namespace ibcoll
