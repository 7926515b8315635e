// Graphs of neighbours: what they know, which messages the algorithms send, and how large their
// programs are.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/algorithms/registry.h"
#include "engine/schedule/json.h"
#include "engine/schedule/verifier.h"
#include "engine/tuner/choose.h"
#include "studies/measure/graph_patterns.h"
#include "tests/algorithm_lists.h"
#include "tests/graphs.h"
#include "tests/sweep.h"

namespace ibcoll {
namespace {

using testing::algorithms_of;
using ::testing::ElementsAre;
using testing::shape_of;

constexpr Collective kNeighborCalls[] = {
    Collective::kNeighborAllgather, Collective::kNeighborAllgatherv, Collective::kNeighborAlltoall,
    Collective::kNeighborAlltoallv, Collective::kNeighborAlltoallw};

TEST(Graph, KnowsWhichEdgeIsWhich) {
  const Shape shape = shape_of({2, 1});
  const Graph::Edge edges[] = {{0, 2}, {0, 0}, {0, 2}, {1, 2}, {2, 0}};
  const auto graph = Graph::create(shape, edges).value();
  EXPECT_THAT(graph->destinations(0), ElementsAre(2, 0, 2));
  EXPECT_THAT(graph->destination_copies(0), ElementsAre(0, 0, 1));
  EXPECT_THAT(graph->sources(2), ElementsAre(0, 0, 1));
  EXPECT_THAT(graph->source_copies(2), ElementsAre(0, 1, 0));
  EXPECT_EQ(graph->totals(), (Graph::Totals{5, 4, 3, 2}));
  EXPECT_EQ(recv_block(Collective::kNeighborAlltoall, 2, 0, 1, graph.get()), (Block{0, 2 + 3}));
}

TEST(Graph, ItsHashIsThatOfAllListsInTheirOrder) {
  const Shape shape = shape_of({4});
  std::set<uint64_t> hashes;
  for (const auto& edges : std::vector<std::vector<Graph::Edge>>{
           {}, {{0, 1}}, {{1, 0}}, {{0, 1}, {0, 2}}, {{0, 2}, {0, 1}}, {{0, 1}, {0, 1}}})
    hashes.insert(Graph::create(shape, edges).value()->hash());
  EXPECT_EQ(hashes.size(), 6u);
}

TEST(Graph, NamesTwoRanksThatDisagree) {
  const Shape shape = shape_of({3});
  std::vector<Graph::Neighbours> lists(3);
  lists[0].destinations = {2, 2};
  lists[2].sources = {0};
  EXPECT_EQ(Graph::create(shape, lists).error().message,
            "rank 0 has 2 edges to rank 2, which has 1 edge from it");
  lists[1].sources = {7};
  EXPECT_EQ(Graph::create(shape, lists).error().message,
            "rank 1 has the neighbour 7: the ranks are 0 to 2");
}

TEST(Graph, PartsOfRanksThatAgreeAddUpToNothing) {
  const Shape shape = shape_of({3, 4});
  for (const auto& [name, graph] : graphs_for(shape)) {
    uint64_t open[2] = {0, 0};
    for (Rank rank = 0; rank < shape.ranks(); ++rank) {
      const auto from = graph->sources(rank), to = graph->destinations(rank);
      const Graph::Part part =
          Graph::part_of(rank, {{from.begin(), from.end()}, {to.begin(), to.end()}});
      for (int i = 0; i < 2; ++i) open[i] += part.open[i];
    }
    EXPECT_EQ(open[0], 0u) << name;
    EXPECT_EQ(open[1], 0u) << name;
  }
}

/// What crosses between servers: messages by pair of servers, and blocks.
struct Crossing {
  std::map<std::pair<int, int>, int> messages;
  uint64_t blocks = 0;
};
Crossing crossing(const Shape& shape, const std::vector<ProgramPtr>& programs) {
  Crossing result;
  for (const ProgramPtr& program : programs) {
    for (const Op& op : program->lane(Lane::kSend)) {
      if (op.kind != OpKind::kPut) continue;
      ++result.messages[{shape.server_of(program->me), shape.server_of(op.peer)}];
      result.blocks += op.count;
    }
  }
  return result;
}

TEST(NeighborPrograms, AggregatedSendsOneMessageAPairOfServersThatExchange) {
  for (const Shape& shape : {shape_of({3, 1, 4}), shape_of({3, 1, 4}, Placement::kCyclic),
                             shape_of({2, 2, 2}), shape_of({1, 1, 1, 1, 1})}) {
    for (const auto& [name, graph] : graphs_for(shape)) {
      for (const Collective collective : kNeighborCalls) {
        const auto& aggregated = *find_algorithm(collective, "aggregated").value();
        const Crossing all = crossing(shape, build_all(aggregated, shape, {.graph = graph}));
        EXPECT_EQ(all.messages.size(), graph->totals().pairs) << name;
        for (const auto& [servers, messages] : all.messages) EXPECT_EQ(messages, 1) << name;
        // Of an allgather each origin's block crosses once a server.
        const bool gathers = same_for_all(collective);
        EXPECT_EQ(all.blocks, gathers ? graph->totals().origins : graph->totals().crossing) << name;
      }
    }
  }
}

TEST(NeighborPrograms, DirectSendsOneMessageAnEdge) {
  const Shape shape = shape_of({3, 1, 4});
  for (const auto& [name, graph] : graphs_for(shape)) {
    for (const Collective collective : kNeighborCalls) {
      const auto& direct = *find_algorithm(collective, "direct").value();
      const auto programs = build_all(direct, shape, {.graph = graph});
      EXPECT_EQ(crossing(shape, programs).blocks, graph->totals().crossing) << name;
      for (const auto& program : programs) EXPECT_TRUE(program->scratch.empty());
    }
  }
}

TEST(NeighborPrograms, AreSmallInJobsOfManyRanks) {
  const Shape shape = shape_of(std::vector<int>(128, 32));
  const auto graph = measure::parse_graph("grid:16x16x16", shape).value();
  for (const Collective collective : kNeighborCalls) {
    for (const Algorithm* const algorithm : algorithms_of(collective)) {
      for (const Rank rank : {0, 77, 4095})
        EXPECT_LT(algorithm->build(shape, rank, {.graph = graph})->memory_bytes(), 100'000u)
            << algorithm->name;
    }
  }
}

TEST(NeighborPrograms, NeedToKnowNoMoreThanTheServersOwnLists) {
  const Shape shape = shape_of({3, 2, 4}, Placement::kCyclic);
  for (const auto& [name, graph] : graphs_for(shape)) {
    for (const Rank rank : {0, 4, 8}) {
      const auto members = shape.members(shape.server_of(rank));
      std::vector<Graph::Neighbours> lists;
      for (const Rank member : members) {
        const auto from = graph->sources(member), to = graph->destinations(member);
        lists.push_back({{from.begin(), from.end()}, {to.begin(), to.end()}});
      }
      const auto part = std::make_shared<Graph>(
          shape.ranks(), std::vector<Rank>(members.begin(), members.end()), lists);
      for (const Collective collective : kNeighborCalls) {
        for (const Algorithm* const algorithm : algorithms_of(collective)) {
          EXPECT_EQ(program_to_json(*algorithm->build(shape, rank, {.graph = part})),
                    program_to_json(*algorithm->build(shape, rank, {.graph = graph})))
              << name << " " << algorithm->name;
        }
      }
    }
  }
}

TEST(NeighborPrograms, AreReadBackFromFiles) {
  const Shape shape = shape_of({3, 2});
  const auto graph = graphs_for(shape)[6].graph;
  const auto& algorithm = *find_algorithm(Collective::kNeighborAlltoallv, "aggregated").value();
  const auto programs = build_all(algorithm, shape, {.graph = graph});
  std::string text = schedule_header_to_json(shape, *programs[0]).dump() + "\n";
  for (const auto& program : programs) text += program_to_json(*program).dump() + "\n";
  const auto loaded = parse_schedule(text);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(program_to_json(*loaded->programs[1]), program_to_json(*programs[1]));
}

TEST(NeighborChoice, FollowsFromWhatAllRanksKnow) {
  const Shape shape = shape_of(std::vector<int>(8, 8));
  const auto dense = measure::parse_graph("grid:4x4x4", shape).value();
  const auto sparse = measure::parse_graph("ring:1", shape).value();
  const auto choice = [&](const Graph& graph, int64_t bytes) {
    return choose({.collective = Collective::kNeighborAlltoall,
                   .shape = shape,
                   .block_bytes = bytes,
                   .graph = &graph})
        .algorithm;
  };
  EXPECT_EQ(choice(*dense, 8), "aggregated");
  EXPECT_EQ(choice(*dense, 1 << 20), "direct");
  EXPECT_EQ(choice(*dense, -1), "direct");
  EXPECT_EQ(choice(*sparse, 8), "direct");
}

}  // namespace
}  // namespace ibcoll
