// How long multicasts take at most: bounds against simulated broadcasts whose messages cost what
// the bound is told, and the file that costs are read from.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/multicast/bound.h"
#include "engine/tuner/choose.h"
#include "studies/simulate/collective.h"
#include "tests/algorithm_lists.h"
#include "tests/tool.h"
#include "topology/spec.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

// Of hosts and network, in us and bytes a us.
constexpr double kOverhead = 0.3, kLatency = 0.4, kRate = 10'000, kCopyRate = 5'000;

/// Broadcasts that a bound is known for.
std::vector<std::string_view> bounded() {
  std::vector<std::string_view> names;
  for (const Algorithm* const one : testing::algorithms_of(Collective::kBcast))
    if (one->spec->spread != Spread::kOther) names.push_back(one->name);
  return names;
}

/// A straight line from a message of one byte to one of 64 MB.
LayerCosts line(double latency, double overhead, double rate) {
  std::vector<LayerCosts::Row> rows;
  for (const int64_t bytes : {int64_t{1}, int64_t{64} << 20}) {
    const double on_the_way = static_cast<double>(bytes) / rate;
    rows.push_back({bytes, latency + overhead + on_the_way, overhead + on_the_way});
  }
  return {std::move(rows), 0, 0};
}

/// What messages cost in the simulation: overheads at both ends, latency there and, of the exposure
/// before it, back; two links that store packets of 2 KB.
LogP simulated_costs() {
  LogP logp;
  logp.network = line(2 * kLatency + 2 * 2048 / kRate, 2 * kOverhead, kRate);
  logp.local = line(0, 0, kCopyRate);
  logp.ranks_per_core = 1;
  return logp;
}

double simulated_us(std::string_view algorithm, const Shape& shape, int64_t bytes, uint32_t pieces,
                    bool acks) {
  const topology::Fabric fabric =
      topology::open_fabric(fmt::format("single-switch:{},bandwidth=10GB/s,latency=200ns",
                                        std::max(2, shape.servers())))
          .value();
  sim::CollectiveOptions options;
  options.network.level = sim::Level::kPacket;
  options.network.queues = sim::Queues::kOutput;
  options.network.header_bytes = 0;
  options.run.block_bytes = static_cast<uint64_t>(bytes);
  options.run.pieces = pieces;
  options.run.send_overhead_ns = options.run.recv_overhead_ns = 300;
  options.run.copy_bytes_per_second = kCopyRate * 1e6;
  const Algorithm* how = *find_algorithm(Collective::kBcast, algorithm);
  how->set_pieces(pieces, options.algorithm);
  options.algorithm.acks = acks;
  return sim::simulate(*how, shape, fabric, options).value().time_us;
}

/// All ranks of a job of so many servers and ranks on each.
struct Case {
  Case(int servers, int each)
      : shape(Shape::from_layout(std::vector<int>(servers, each), Placement::kBlock).value()),
        members(RankSet::interval(0, servers * each), shape) {
    inputs.servers = &members;
    inputs.set_bytes = RankSet::interval(0, servers * each).encode().size();
  }
  double total(const LogP& logp) const { return multicast_bound(logp, inputs).value().total(); }

  Shape shape;
  MemberServers members;
  MulticastBoundInputs inputs;
};

class BoundOf : public ::testing::TestWithParam<std::string_view> {};

TEST_P(BoundOf, IsNotBelowWhatIsSimulatedAndNotFarAboveIt) {
  const LogP logp = simulated_costs();
  double worst = 0;
  for (const int servers : {1, 2, 3, 5, 8, 17, 32}) {
    for (const int each : {1, 3}) {
      for (const int64_t bytes : {8192, 81920, 1 << 20}) {
        Case one(servers, each);
        if (one.shape.ranks() == 1) continue;
        one.inputs.algorithm = GetParam();
        one.inputs.bytes = bytes;
        one.inputs.pieces = choose_pieces(*find_algorithm(Collective::kBcast, GetParam()).value(),
                                          {Collective::kBcast, one.shape, bytes});
        one.inputs.master = MulticastBoundInputs::Master::kRoot;
        const MulticastBound bound = multicast_bound(logp, one.inputs).value();
        const double without = simulated_us(GetParam(), one.shape, bytes, one.inputs.pieces, false);
        EXPECT_GE(bound.exposures + bound.distribution, without)
            << one.shape.describe() << ", " << bytes << " bytes in " << one.inputs.pieces;
        EXPECT_GE(bound.exposures + bound.distribution + bound.acks,
                  simulated_us(GetParam(), one.shape, bytes, one.inputs.pieces, true))
            << one.shape.describe() << ", " << bytes << " bytes in " << one.inputs.pieces;
        worst = std::max(worst, (bound.exposures + bound.distribution) / without);
      }
    }
  }
  EXPECT_LT(worst, 10) << "times what is simulated: of no use";
}

/// Where messages are long on their way, and cost next to nothing else.
TEST_P(BoundOf, HasTheWayOfTheData) {
  LogP logp = simulated_costs();
  logp.network = line(1000, 0.001, kRate);
  for (const int servers : {2, 3, 8}) {
    Case one(servers, 1);
    one.inputs.algorithm = GetParam();
    one.inputs.bytes = 8192;
    one.inputs.pieces = 1;
    one.inputs.master = MulticastBoundInputs::Master::kRoot;
    EXPECT_GE(multicast_bound(logp, one.inputs).value().distribution, 1000) << servers;
  }
}

TEST_P(BoundOf, GrowsWithBytesAndMembers) {
  LogP logp = simulated_costs();
  logp.operation_us = 0.05;
  double before = 0;
  for (const int64_t bytes : {0, 1, 100, 3000, 4000, 5000, 20'000, 1 << 20, 100 << 20}) {
    Case one(9, 3);
    one.inputs.algorithm = GetParam();
    one.inputs.bytes = bytes;
    one.inputs.pieces = 4;
    EXPECT_GE(one.total(logp), before) << bytes;
    before = one.total(logp);
  }
  const bool doubles =
      look_up_algorithm(Collective::kBcast, GetParam())->spec->spread == Spread::kScatterDoubling;
  for (const int64_t bytes : {100, 100'000}) {
    before = 0;
    for (int servers = 1; servers <= 40; ++servers) {
      // With doubling a power of two takes fewer messages than the numbers below it.
      if (doubles && (servers & (servers - 1)) != 0) continue;
      Case one(servers, 2);
      one.inputs.algorithm = GetParam();
      one.inputs.bytes = bytes;
      one.inputs.pieces = 4;
      EXPECT_GE(one.total(logp), before) << servers;
      before = one.total(logp);
    }
    before = 0;
    for (int each = 1; each <= 20; ++each) {
      Case one(3, each);
      one.inputs.algorithm = GetParam();
      one.inputs.bytes = bytes;
      one.inputs.pieces = 4;
      EXPECT_GE(one.total(logp), before) << each;
      before = one.total(logp);
    }
  }
}

TEST_P(BoundOf, CountsAtLeastTheOperationsOfThePrograms) {
  const Algorithm* how = *find_algorithm(Collective::kBcast, GetParam());
  for (const int servers : {1, 2, 3, 7, 16, 21}) {
    for (const int each : {1, 2, 5}) {
      const Case one(servers, each);
      AlgorithmOptions options;
      constexpr uint32_t kPieces = 12;
      how->set_pieces(kPieces, options);
      for (const ProgramPtr& program : build_all(*how, one.shape, options))
        EXPECT_GE(most_operations(GetParam(), kPieces, one.members), program->size())
            << one.shape.describe() << ", rank " << program->me;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, BoundOf, ::testing::ValuesIn(bounded()),
                         [](const auto& info) { return std::string(info.param); });

/// Else the tests above would say nothing of that way.
TEST(Bound, HasABroadcastForEveryWayToSpreadABlock) {
  std::set<Spread> ways;
  for (const std::string_view name : bounded())
    ways.insert(look_up_algorithm(Collective::kBcast, name)->spec->spread);
  for (const Spread way : {Spread::kFromRoot, Spread::kTree, Spread::kChain, Spread::kCirculant,
                           Spread::kScatterRing, Spread::kScatterDoubling})
    EXPECT_TRUE(ways.contains(way)) << static_cast<int>(way);
}

TEST(Bound, OfShortDataIsThatOfAnnouncementAndAcknowledgements) {
  const LogP logp = simulated_costs();
  Case one(8, 2);
  one.inputs.bytes = 1000;  // no algorithm is asked for
  const MulticastBound bound = multicast_bound(logp, one.inputs).value();
  EXPECT_EQ(bound.exposures + bound.feed + bound.distribution, 0);
  EXPECT_GT(bound.announcement, 4 * logp.network.hop_us(1000)) << "to the root, three levels";
  EXPECT_GT(bound.acks, 4 * logp.network.hop_us(1));
}

TEST(Bound, CountsRanksThatShareACoreSleepAndAreLateOnce) {
  LogP logp = simulated_costs();
  Case one(4, 2);
  one.inputs.bytes = 100'000;
  one.inputs.algorithm = "binomial";
  const double alone = one.total(logp);
  one.inputs.ranks_per_core = 3;
  EXPECT_NEAR(one.total(logp), 3 * alone, 1e-9 * alone);
  logp.ranks_per_core = 3;  // measured so
  EXPECT_EQ(one.total(logp), alone);
  const std::vector<LayerCosts::Row> rows = {{1, 1.5, 1}, {1 << 20, 110, 100}};
  one.inputs.algorithm = "scatter_ring";
  logp.network = LayerCosts(rows, 50, 0);
  const double asleep = one.total(logp);
  logp.network = LayerCosts(rows, 0, 0);
  EXPECT_GE(asleep, one.total(logp) + 3 * 50) << "master to root, root to leaf";
  logp.network = LayerCosts(rows, 50, 1000);
  EXPECT_NEAR(one.total(logp), asleep + 1000, 1e-6);
  one.inputs.awake_us = 0;
  EXPECT_GE(one.total(logp), asleep + 1000 + 3 * 50) << "in each round of the ring, too";
  const double ideal = one.total(logp);
  one.inputs.sharing = 2;
  EXPECT_GT(one.total(logp), ideal);
}

TEST(Bound, SaysWhatIsNotKnown) {
  LogP logp = simulated_costs();
  Case one(2, 1);
  one.inputs.bytes = 10;
  logp.local = {};
  EXPECT_TRUE(multicast_bound(logp, one.inputs)) << "there is one member a server";
  logp.network = {};
  auto none = multicast_bound(logp, one.inputs);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(none.error().message, HasSubstr("'network'"));
  one.inputs.bytes = 1 << 20;
  one.inputs.algorithm = "pigeons";
  none = multicast_bound(simulated_costs(), one.inputs);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(none.error().message, HasSubstr("'pigeons'"));
}

TEST(LogPFile, CostsBetweenAndBeyondWhatWasMeasuredNeverFall) {
  const LayerCosts costs({{1000, 5, 4}, {10, 2, 3}, {100, 1, 1}}, 0, 0);
  EXPECT_EQ(costs.hop_us(1), 2);
  EXPECT_EQ(costs.hop_us(100), 2) << "not less than a shorter one";
  EXPECT_DOUBLE_EQ(costs.hop_us(550), 3.5);
  EXPECT_DOUBLE_EQ(costs.gap_us(1000), 4);
  EXPECT_DOUBLE_EQ(costs.hop_us(5000), 25);
}

std::string costs_line(const std::string& change = "", const std::string& to = "") {
  std::string text =
      R"({"layer":"network","bytes":8,"hop_p99_ns":3000,"hop_max_ns":9000,"gap_p99_ns":1000,)"
      R"("wake_p99_ns":50000,"operation_p99_ns":80,"ranks_per_core":2})";
  if (!change.empty()) text.replace(text.find(change), change.size(), to);
  return text;
}

TEST(LogPFile, IsRead) {
  const LogP logp = parse_logp(costs_line() + "\n" + costs_line("network", "shm") + "\n").value();
  EXPECT_EQ(logp.network.hop_us(8), 3);
  EXPECT_EQ(logp.network.gap_us(8), 1);
  EXPECT_EQ(logp.network.wake_us(), 50);
  EXPECT_EQ(logp.network.delay_us(), 6);
  EXPECT_EQ(logp.operation_us, 0.08);
  EXPECT_EQ(logp.ranks_per_core, 2);
  EXPECT_TRUE(logp.local.known());
}

TEST(LogPFile, WhatIsNoneIsRefusedInOneLine) {
  const auto refused = [](const std::string& text, const std::string& what) {
    const auto logp = parse_logp(text);
    ASSERT_FALSE(logp) << text;
    EXPECT_EQ(logp.error().code, ErrorCode::kInput);
    EXPECT_THAT(logp.error().message, HasSubstr(what));
    EXPECT_THAT(logp.error().message, ::testing::Not(HasSubstr("\n")));
  };
  refused("", "no costs of messages in it");
  refused("\n\n", "no costs of messages in it");
  refused("os 5 or 3\n", "line 1: is not JSON");
  refused(costs_line() + "\n[1,2]\n", "line 2: is not a JSON object");
  refused(costs_line() + "\n" + costs_line(), "line 2: 8 bytes in layer network stand there twice");
  refused(R"({"transport":"shm","bytes":8,"latency_ns":5})", "line 1: 'layer' must be");
  refused(costs_line("network", "pigeons"), "'layer' must be");
  refused(costs_line("\"bytes\"", "\"byte\""), "'bytes' is missing");
  refused(costs_line(":8,", ":8.5,"), "'bytes' must be a whole number");
  refused(costs_line(":8,", ":0,"), "'bytes' must be a whole number");
  refused(costs_line("3000", "-3"), "'hop_p99_ns' must be a number");
  refused(costs_line("3000", "null"), "'hop_p99_ns' must be a number");
  refused(costs_line("9000", "1e999"), "line 1:");
  refused(costs_line("\"ranks_per_core\"", "\"x\""), "'ranks_per_core' is missing");
  const auto none = read_logp("/nonexistent/logp.json");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("/nonexistent/logp.json"));
}

TEST(LogPFile, IsWhatTheToolWrites) {
  const std::string path = testing_tools::file("costs.json", "");
  const auto ran = testing_tools::run_tool(
      "ib_logp",
      "--calls --ranks 4 --servers 2 --transport loopback --rounds 20 --sizes 8,4K "
      "--json " +
          path);
  ASSERT_EQ(ran.status, 0) << ran.err;
  const LogP logp = read_logp(path).value();
  EXPECT_GT(logp.local.hop_us(8), 0);
  EXPECT_GT(logp.network.hop_us(4096), 0);
  EXPECT_GT(logp.operation_us, 0);
  EXPECT_GT(logp.ranks_per_core, 0);
  Case one(2, 2);
  one.inputs.bytes = 100'000;
  one.inputs.algorithm = "chain";
  EXPECT_GT(one.total(logp), 0);
}

}  // namespace
}  // namespace ibcoll
