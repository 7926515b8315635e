// An algorithm is one file: this one adds an all-to-all, which everything then knows.

#include <gtest/gtest.h>

#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_walk.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/verifier.h"
#include "studies/simulate/collective.h"
#include "tests/exchange.h"
#include "topology/spec.h"

namespace ibcoll {
namespace {

using testing::Exchange;
using testing::job_of;
using testing::JobOptions;
using testing::RankView;
using testing::run_job;

/// In step i every rank sends to the rank i before it.
ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "backwards", shape, me, options);
  expose_to_all_servers(program);
  const int ranks = shape.ranks();
  for (int i = 1; i < ranks; ++i) {
    const Rank to = (me - i + ranks) % ranks, from = (me + i) % ranks;
    program.begin_step(static_cast<uint32_t>(i));
    if (!shape.same_server(me, to)) program.put(to, send_slot(to), recv_slot(me));
    if (!shape.same_server(me, from)) program.expect(from, recv_slot(from));
  }
  exchange_inside_server(program);
  forward_exposures(program);
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "backwards",
    .collectives = {Collective::kAlltoall, Collective::kAlltoallv},
    .summary = "step i to the rank i before",
    .when = "never",
    .source = "here",
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

const std::vector<std::vector<int>> kLayouts{
    {1}, {2}, {3}, {5}, {1, 1}, {2, 1}, {3, 1, 2}, {1, 1, 1, 1, 1, 1, 1}, {4, 3, 5}};

TEST(AddedAlgorithm, IsKnownForItsCollectives) {
  for (const Collective collective : kCollectives) {
    const auto found = find_algorithm(collective, "backwards");
    EXPECT_EQ(found.has_value(),
              collective == Collective::kAlltoall || collective == Collective::kAlltoallv);
  }
}

TEST(AddedAlgorithm, IsProved) {
  const Algorithm* algorithm = find_algorithm(Collective::kAlltoall, "backwards").value();
  for (const std::vector<int>& layout : kLayouts) {
    const Shape shape = Shape::from_layout(layout, Placement::kCyclic).value();
    const auto report = verify(shape, build_all(*algorithm, shape));
    EXPECT_TRUE(report) << report.error().message;
  }
}

TEST(AddedAlgorithm, IsSimulated) {
  const Algorithm* algorithm = find_algorithm(Collective::kAlltoall, "backwards").value();
  const topology::Fabric fabric = topology::open_fabric("single-switch:4").value();
  const Shape shape = Shape::from_layout(std::vector<int>{2, 2, 2, 2}, Placement::kBlock).value();
  const auto report = sim::simulate(*algorithm, shape, fabric, {});
  ASSERT_TRUE(report) << report.error().message;
}

TEST(AddedAlgorithm, RunsInsideAndBetweenServers) {
  for (const std::vector<int>& layout : kLayouts) {
    EXPECT_EQ(run_job(job_of(layout),
                      [](const RankView& rank) {
                        for (const size_t bytes : {size_t{0}, size_t{7}, size_t{20000}}) {
                          Exchange exchange(rank.context.world(), bytes, 3, "backwards");
                          if (!rank.good(exchange.post(), "post") ||
                              !rank.good(exchange.call().wait(), "wait"))
                            return;
                          if (!exchange.right()) rank.complain("wrong data");
                        }
                      }),
              "");
  }
}

}  // namespace
}  // namespace ibcoll
