/// Every collective, algorithm, layout, placement and pacing there is, verified.

#include <gtest/gtest.h>

#include <random>

#include "engine/algorithms/registry.h"
#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"
#include "tests/graphs.h"

namespace ibcoll {
namespace {

/// Servers of sizes that sum up to `ranks`: one server, one rank a server, halves, thirds, and
/// unequal ones.
std::vector<std::vector<int>> layouts(int ranks) {
  std::vector<std::vector<int>> all = {{ranks}};
  if (ranks > 1) all.emplace_back(ranks, 1);
  for (const int servers : {2, 3, 4}) {
    if (ranks > servers && ranks % servers == 0) all.emplace_back(servers, ranks / servers);
  }
  if (ranks > 2) all.push_back({ranks - 1, 1});
  if (ranks > 3) all.push_back({1, ranks - 3, 2});
  if (ranks > 5) all.push_back({ranks - 3, 1, 2});
  if (ranks > 6) all.push_back({2, 1, ranks - 6, 3});
  return all;
}

std::vector<Shape> placed_layouts(int ranks) {
  std::vector<Shape> all;
  for (const auto& layout : layouts(ranks)) {
    all.push_back(Shape::from_layout(layout, Placement::kBlock).value());
    if (layout.size() == 1 || *std::max_element(layout.begin(), layout.end()) == 1) continue;
    all.push_back(Shape::from_layout(layout, Placement::kCyclic).value());
    std::vector<int> server_of;
    for (int rank = 0; rank < ranks; ++rank) server_of.push_back(all.back().server_of(rank));
    std::mt19937 random(ranks);
    std::shuffle(server_of.begin(), server_of.end(), random);
    all.push_back(Shape::create(server_of).value());
  }
  return all;
}

class Sweep : public ::testing::TestWithParam<int> {};

/// What an algorithm can be told on a shape.
std::vector<AlgorithmOptions> options_of(const Algorithm& algorithm, const Shape& shape) {
  std::vector<AlgorithmOptions> all;
  for (const Pacing pacing : {Pacing::kFree, Pacing::kGate, Pacing::kToken, Pacing::kGateToken}) {
    if (!algorithm.paced && pacing != Pacing::kFree) continue;
    for (const uint32_t window : {0, 1, 3}) all.push_back({pacing, window});
  }
  if (has_graph(algorithm.collective)) {
    all.clear();
    for (const auto& [name, graph] : graphs_for(shape)) {
      all.push_back({});
      all.back().pacing = Pacing::kFree;
      all.back().graph = graph;
    }
    all.push_back({Pacing::kFree});  // without a graph: no neighbours
    return all;
  }
  if (!has_root(algorithm.collective)) {
    if (algorithm.keeps_order(shape)) all.push_back({Pacing::kFree, 1, 0, true});
    return all;
  }
  const bool bcast = algorithm.collective == Collective::kBcast;
  all.clear();
  for (const bool ordered : {false, true}) {
    if (ordered && !algorithm.keeps_order(shape)) continue;
    for (const Rank root : {0, shape.ranks() / 2, shape.ranks() - 1}) {
      all.push_back({Pacing::kFree, 1, root, ordered});
      if (bcast) all.push_back({Pacing::kFree, 1, root, ordered, 0, true});
      for (const uint32_t cut : {1, 2, 5, 17}) {
        if (!algorithm.spec->cuts) break;
        all.push_back({Pacing::kFree, 1, root, ordered, cut});
      }
    }
  }
  return all;
}

TEST_P(Sweep, EveryScheduleHolds) {
  for (const Shape& shape : placed_layouts(GetParam())) {
    for (const Algorithm& algorithm : algorithms()) {
      for (const AlgorithmOptions& options : options_of(algorithm, shape)) {
        const auto programs = build_all(algorithm, shape, options);
        const auto report = verify(shape, programs);
        ASSERT_TRUE(report.has_value())
            << to_string(algorithm.collective) << " " << algorithm.name << " on "
            << shape.describe() << ", pacing " << to_string(options.pacing) << ", window "
            << options.window << ", root " << options.root << ", cut " << options.cut
            << (options.graph ? fmt::format(", graph of {} edges", options.graph->totals().edges)
                              : "")
            << (options.acks ? ", acks" : "") << (options.ordered ? ", ordered" : "") << ": "
            << report.error().message;
        for (const auto& program : programs) {
          for (const Op& op : program->lane(Lane::kSend)) {
            if (algorithm.largest_put == nullptr || op.kind != OpKind::kPut) continue;
            const auto most = static_cast<uint32_t>(algorithm.largest_put(shape));
            ASSERT_LE(op.count, most * program->cut)
                << algorithm.name << " on " << shape.describe();
          }
        }
        if (options.pacing == Pacing::kToken || options.pacing == Pacing::kGateToken ||
            algorithm.name == "one_at_a_time") {
          EXPECT_TRUE(report->paced)
              << algorithm.name << " on " << shape.describe() << ": " << report->witness;
        }
        if (options.ordered) {
          for (const auto& program : programs) {
            for (const Op& op : program->lane(Lane::kLocal)) {
              EXPECT_TRUE((op.kind != OpKind::kReduce && !op.combines) || op.ordered)
                  << algorithm.name;
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sweep, ::testing::Values(1, 2, 3, 4, 5, 7, 8, 12, 16));

}  // namespace
}  // namespace ibcoll
