// Collectives on simulated networks: every algorithm, and the figures of the 2-Level Ring paper.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/schedule/layout.h"
#include "engine/schedule/verifier.h"
#include "studies/measure/graph_patterns.h"
#include "studies/simulate/blocking_model.h"
#include "studies/simulate/collective.h"
#include "topology/generators.h"

namespace ibcoll::sim {
namespace {

using ::testing::HasSubstr;
using topology::Fabric;

const Algorithm& alltoall(std::string_view name) {
  return **find_algorithm(Collective::kAlltoall, name);
}

CollectiveOptions options_for(uint64_t block_bytes, Mode mode) {
  CollectiveOptions options;
  options.mode = mode;
  options.run.block_bytes = block_bytes;
  return options;
}

CollectiveReport run(std::string_view algorithm, const char* layout,
                     const CollectiveOptions& options) {
  const Shape shape = parse_layout(layout).value();
  const Fabric fabric = topology::single_switch(shape.servers()).value();  // 2000 MB/s, 200 ns
  const auto report = simulate(alltoall(algorithm), shape, fabric, options);
  EXPECT_TRUE(report.has_value()) << report.error().message;
  return report.value_or(CollectiveReport{});
}

/// What an alltoall takes at least: what the busiest port has to move, at its rate.
double bound_us(const Shape& shape, uint64_t block_bytes, double bandwidth) {
  double most = 0;
  for (int server = 0; server < shape.servers(); ++server) {
    const int size = shape.server_size(server);
    most = std::max<double>(most, static_cast<double>(size) * (shape.ranks() - size));
  }
  return most * static_cast<double>(block_bytes) / bandwidth * 1e6;
}

// Every algorithm there is, at sizes that fill no packet, one, or not quite several.
class SimulatedSweep : public ::testing::TestWithParam<const char*> {};

TEST_P(SimulatedSweep, EveryAlgorithmDelivers) {
  for (const Placement placement : {Placement::kBlock, Placement::kCyclic}) {
    const Shape shape = parse_layout(GetParam(), placement).value();
    const Fabric fabric = topology::k_ary_n_tree(2, 3).value();
    for (const Algorithm& algorithm : algorithms()) {
      for (const uint64_t bytes : {0, 1, 2047, 2048, 5000}) {
        const bool one_message = algorithm.collective == Collective::kBarrier;
        for (const Mode mode : {Mode::kBarrier, Mode::kSendReceive, Mode::kFree, Mode::kPaced}) {
          if (mode != Mode::kPaced && one_message) continue;
          std::vector<uint64_t> host_bytes;
          for (const Level level : {Level::kPacket, Level::kFlow}) {
            CollectiveOptions options = options_for(bytes, mode);
            options.network.level = level;
            options.run.pieces = 2;
            if (has_graph(algorithm.collective))
              options.algorithm.graph = measure::parse_graph("random:3:1", shape).value();
            options.run.control_bytes = 0;
            options.run.jitter = 0.3;
            options.run.skew_ns = 1000;
            options.run.send_overhead_ns = 100;
            options.run.recv_overhead_ns = 50;
            options.run.copy_bytes_per_second = 5e9;
            const auto report = simulate(algorithm, shape, fabric, options);
            ASSERT_TRUE(report.has_value())
                << to_string(algorithm.collective) << " " << algorithm.name << " on "
                << shape.describe() << ", " << to_string(mode) << ": " << report.error().message;
            if (algorithm.collective == Collective::kAlltoall) {
              EXPECT_GE(report->time_us, bound_us(shape, bytes, 2000e6));
              EXPECT_LE(report->link_fraction, 1 + 1e-9);
            }
            // Both levels move the same.
            if (level == Level::kPacket) {
              host_bytes = report->link_bytes;
            } else {
              EXPECT_EQ(report->link_bytes, host_bytes) << algorithm.name;
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, SimulatedSweep,
                         ::testing::Values("1", "5", "1,1", "3,1,2", "1,4,1,3", "2,2,2,2,2",
                                           "7x1"));

TEST(Collective, MovesExactlyWhatTheProgramsSay) {
  const Shape shape = parse_layout("3,1,2").value();
  const Fabric fabric = topology::single_switch(3).value();
  CollectiveOptions options = options_for(1000, Mode::kPaced);
  options.run.control_bytes = 0;
  const auto report = simulate(alltoall("two_level_ring"), shape, fabric, options).value();
  const auto programs = build_all(alltoall("two_level_ring"), shape);
  EXPECT_EQ(report.messages, 2u * (3 * 1 + 3 * 2 + 1 * 2));
  for (int server = 0; server < 3; ++server) {
    const int size = shape.server_size(server);
    EXPECT_EQ(report.link_bytes[fabric.host_link(server)], 1000u * size * (6 - size));
  }
}

TEST(Collective, IsTheSameForTheSameSeed) {
  CollectiveOptions options = options_for(20'000, Mode::kSendReceive);
  options.run.jitter = 0.2;
  const double first = run("ring", "4x3", options).time_us;
  EXPECT_EQ(run("ring", "4x3", options).time_us, first);
  options.network.seed = 2;
  EXPECT_NE(run("ring", "4x3", options).time_us, first);
}

// One rank a server, one message a step: everybody's message is alone on its links. A rank exposes
// to all servers first; then each step is a message and, to go on, its acknowledgement.
TEST(Collective, WithoutContentionTakesTheClosedForm) {
  constexpr uint64_t kBytes = 100'000;
  constexpr int kServers = 8;
  for (const Level level : {Level::kPacket, Level::kFlow}) {
    CollectiveOptions options = options_for(kBytes, Mode::kSendReceive);
    options.network.level = level;
    options.run.send_overhead_ns = 700;
    options.run.recv_overhead_ns = 300;
    const double step = 0.7 + kBytes / 2000.0 + 0.4 + 0.4;
    const double expected = (kServers - 1) * (0.7 + step);
    EXPECT_NEAR(run("ring", "8x1", options).time_us, expected, 0.01 * expected) << to_string(level);
    EXPECT_NEAR(run("two_level_ring", "8x1", options).time_us, expected, 0.01 * expected);
  }
}

TEST(Collective, CopiesTakeTheirTime) {
  CollectiveOptions options = options_for(1 << 20, Mode::kPaced);
  options.run.copy_bytes_per_second = 4e9;
  // Three blocks from local peers and one's own.
  const double expected = 4 * 1048576 / 4000.0;
  EXPECT_NEAR(run("linear", "4", options).time_us, expected, 0.01 * expected);
  options.run.copy_bytes_per_second = 0;
  EXPECT_EQ(run("linear", "4", options).time_us, 0);
}

TEST(Collective, GivesUpWhenMoreIsUnderWayThanAllowed) {
  const Shape shape = parse_layout("40x8").value();
  const Fabric fabric = topology::single_switch(40).value();
  CollectiveOptions options = options_for(1 << 16, Mode::kPaced);
  options.network.level = Level::kFlow;
  options.run.most_flights = 20'000;
  const auto all_at_once = simulate(alltoall("linear"), shape, fabric, options);
  ASSERT_FALSE(all_at_once.has_value());
  EXPECT_THAT(all_at_once.error().message, HasSubstr("messages under way"));
  EXPECT_TRUE(simulate(alltoall("two_level_ring"), shape, fabric, options).has_value());
}

TEST(Collective, RefusesWhatCannotBe) {
  const Shape shape = parse_layout("3x2").value();
  const Fabric small = topology::single_switch(2).value();
  const Fabric fabric = topology::single_switch(4).value();
  const auto message = [&](const Fabric& on, std::vector<uint32_t> hosts) {
    CollectiveOptions options = options_for(100, Mode::kPaced);
    options.hosts = std::move(hosts);
    const auto report = simulate(alltoall("ring"), shape, on, options);
    return report ? "" : report.error().message;
  };
  EXPECT_THAT(message(small, {}), HasSubstr("3 servers: the network has 2 hosts"));
  EXPECT_THAT(message(fabric, {0, 1}), HasSubstr("2 hosts for 3 servers"));
  EXPECT_THAT(message(fabric, {0, 1, 4}), HasSubstr("no host 4"));
  EXPECT_THAT(message(fabric, {0, 1, 0}), HasSubstr("host 0 stands for two servers"));
  EXPECT_EQ(message(fabric, {3, 1, 2}), "");
}

// Figures 4 and 6 of the paper: 8 servers of 8 ranks.
TEST(Paper, RingStepsTakeWhatTheModelSays) {
  const auto report = run("ring", "8x8", options_for(1 << 18, Mode::kBarrier));
  const double alone = 8 * 262144 / 2000.0;
  for (int step = 8; step <= 56; ++step) {
    const double model = ring_step_time(step, 8) * alone;
    EXPECT_NEAR(report.step_us[step], model, 0.05 * model) << "step " << step;
  }
}

// Figure 9.
TEST(Paper, TwoLevelRingStepsAreFlat) {
  const auto report = run("two_level_ring", "8x8", options_for(1 << 18, Mode::kBarrier));
  const double alone = 8 * 262144 / 2000.0;
  for (int step = 8; step < 64; ++step) {
    EXPECT_NEAR(report.step_us[step], alone, 0.01 * alone) << "step " << step;
  }
}

TEST(Paper, BlockingNeedsARandomNicAndInputQueues) {
  const double alone = 8 * 262144 / 2000.0;
  CollectiveOptions options = options_for(1 << 18, Mode::kBarrier);
  options.network.nic = Nic::kRoundRobin;
  EXPECT_NEAR(run("ring", "4x8", options).step_us[12], alone, 0.02 * alone);
  options.network.nic = Nic::kRandom;
  EXPECT_NEAR(run("ring", "4x8", options).step_us[12], alone * 4 / 3, 0.05 * alone * 4 / 3);
  options.network.queues = Queues::kOutput;
  EXPECT_LT(run("ring", "4x8", options).step_us[12], 1.1 * alone);
}

// The headline: 24 servers of 8 ranks, 1 MB.
TEST(Paper, FullBandwidthOfRingAndTwoLevelRing) {
  const auto ring = run("ring", "24x8", options_for(1 << 20, Mode::kBarrier));
  const auto two_level = run("two_level_ring", "24x8", options_for(1 << 20, Mode::kBarrier));
  EXPECT_GE(ring.link_fraction, 0.80);
  EXPECT_LE(ring.link_fraction, 0.85);
  EXPECT_GE(two_level.link_fraction, 0.98);
  EXPECT_GE(two_level.bandwidth_MBps / ring.bandwidth_MBps, 1.17);
  EXPECT_LE(two_level.bandwidth_MBps / ring.bandwidth_MBps, 1.24);
  EXPECT_LT(ring.events, 70e6);  // 10 million a second are slow
}

/// Part of the bound that paced 2-Level Ring reaches with 20 % noise and ranks that come late.
double noisy(const char* layout, uint64_t block_bytes) {
  CollectiveOptions options = options_for(block_bytes, Mode::kPaced);
  options.run.jitter = 0.2;
  options.run.skew_ns = 50'000;
  return run("two_level_ring", layout, options).link_fraction;
}

TEST(Paper, PacedTwoLevelRingBearsNoise) {
  EXPECT_GE(noisy("12x8", 1 << 17), 0.98);
  EXPECT_GE(noisy("8,3,5,1,8,2,7,4", 1 << 17), 0.98);
}

TEST(Paper, FullPacedTwoLevelRingBearsNoise) {
  EXPECT_GE(noisy("24x8", 1 << 20), 0.98);
  EXPECT_GE(noisy("8,3,5,1,8,2,7,4,6,8,1,3,5,2,8,7", 1 << 20), 0.98);
}

// At flow level blocking is an estimate: near what packets show.
TEST(Flow, BlocksAboutAsPacketsDo) {
  for (const Mode mode : {Mode::kBarrier, Mode::kSendReceive}) {
    for (const char* algorithm : {"ring", "two_level_ring"}) {
      CollectiveOptions options = options_for(1 << 17, mode);
      const double packets = run(algorithm, "12x8", options).time_us;
      options.network.level = Level::kFlow;
      EXPECT_NEAR(run(algorithm, "12x8", options).time_us, packets, 0.05 * packets)
          << algorithm << ", " << to_string(mode);
    }
  }
}

TEST(Flow, FullThousandRanksTakeFewEvents) {
  for (const char* algorithm : {"ring", "two_level_ring", "aggregate"}) {
    CollectiveOptions options = options_for(1 << 20, Mode::kPaced);
    options.network.level = Level::kFlow;
    options.run.jitter = 0.2;
    const auto report = run(algorithm, "128x8", options);
    EXPECT_GE(report.link_fraction, algorithm == std::string_view("ring") ? 0.75 : 0.95)
        << algorithm;
    EXPECT_LT(report.events, 10e6) << algorithm;
  }
}

}  // namespace
}  // namespace ibcoll::sim
