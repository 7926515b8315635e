// The simulated network: events, lanes, closed forms, textbook figures, transfers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "studies/simulate/traffic.h"
#include "studies/simulate/transfers.h"
#include "topology/fabric_builder.h"
#include "topology/generators.h"

namespace ibcoll::sim {
namespace {

using ::testing::HasSubstr;
using topology::Fabric;

RC_GTEST_PROP(EventQueue, GivesEventsInOrder, ()) {
  EventQueue queue(*rc::gen::inRange<Time>(1, 5000));
  std::vector<std::pair<Time, uint32_t>> expected;  // pushed and not popped
  Time now = 0;
  const auto spread = *rc::gen::element<Time>(10, 3000, 100'000'000);
  for (uint32_t i = 0; i < 300; ++i) {
    if (!expected.empty() && *rc::gen::inRange(0, 3) == 0) {
      const auto first = std::min_element(expected.begin(), expected.end());
      RC_ASSERT(queue.next_time() == first->first);
      const Event event = queue.pop();
      RC_ASSERT(event.time == first->first);
      RC_ASSERT(event.index == first->second);  // pushed first
      now = event.time;
      expected.erase(first);
    } else {
      const Time time = now + *rc::gen::inRange<Time>(0, spread);
      queue.push(time, 7, i);
      expected.emplace_back(time, i);
    }
    RC_ASSERT(queue.size() == expected.size());
  }
}

/// Whether the dependencies of routes in one lane have a cycle.
bool has_cycle(const std::vector<std::vector<uint32_t>>& routes, uint32_t links) {
  std::vector<std::vector<uint32_t>> after(links);
  std::vector<int> before(links);
  for (const auto& route : routes) {
    for (size_t i = 0; i + 1 < route.size(); ++i) {
      after[route[i]].push_back(route[i + 1]);
      ++before[route[i + 1]];
    }
  }
  std::vector<uint32_t> free;
  for (uint32_t link = 0; link < links; ++link) {
    if (before[link] == 0) free.push_back(link);
  }
  size_t gone = 0;
  for (; gone < free.size(); ++gone) {
    for (const uint32_t next : after[free[gone]]) {
      if (--before[next] == 0) free.push_back(next);
    }
  }
  return gone < links;
}

RC_GTEST_PROP(LaneAssigner, NoLaneHasACycle, ()) {
  const auto links = *rc::gen::inRange<uint32_t>(2, 20);
  topology::FastRandom random(*rc::gen::arbitrary<uint64_t>());
  topology::LaneAssigner assigner(links);
  std::vector<std::vector<std::vector<uint32_t>>> by_lane;
  for (uint32_t i = 0; i < 40; ++i) {
    std::vector<uint32_t> route(links);
    std::iota(route.begin(), route.end(), 0);
    for (uint32_t j = links - 1; j > 0; --j) {
      std::swap(route[j], route[random.below(static_cast<int>(j) + 1)]);
    }
    route.resize(std::min(links, 1 + i % 5u));
    const uint32_t lane = assigner.assign(route);
    if (lane > 0) {  // the lane before would not have taken it
      auto with = by_lane[lane - 1];
      with.push_back(route);
      RC_ASSERT(has_cycle(with, links));
    }
    if (by_lane.size() <= lane) by_lane.resize(lane + 1);
    by_lane[lane].push_back(route);
  }
  for (const auto& routes : by_lane) RC_ASSERT(!has_cycle(routes, links));
}

NetworkOptions packets() { return {}; }
NetworkOptions flows() {
  NetworkOptions options;
  options.level = Level::kFlow;
  options.queues = Queues::kOutput;
  return options;
}

/// Time in us of transfers without dependencies.
double time_of(const Fabric& fabric, const std::vector<Transfer>& transfers,
               const NetworkOptions& options) {
  const auto times = simulate_transfers(fabric, transfers, options);
  EXPECT_TRUE(times.has_value()) << times.error().message;
  return times ? times->time_us : -1;
}

double closed_form_us(const Fabric& fabric, int from, int to, uint64_t bytes,
                      const NetworkOptions& options) {
  Routes routes(fabric, true);
  const uint32_t route = routes.add(from, to).value();
  return static_cast<double>(uncontended_time(routes, route, bytes, options.cut_through,
                                              options.mtu_bytes, options.header_bytes)) *
         1e-6;
}

TEST(ClosedForm, IsWhatTheCommentSays) {
  const Fabric fabric = topology::single_switch(4).value();  // 2000 MB/s, 200 ns
  NetworkOptions options;
  EXPECT_DOUBLE_EQ(closed_form_us(fabric, 0, 1, 1 << 20, options), 524.288 + 0.4);
  options.cut_through = false;
  EXPECT_DOUBLE_EQ(closed_form_us(fabric, 0, 1, 1 << 20, options), 524.288 + 1.024 + 0.4);
  options.header_bytes = 32;
  EXPECT_DOUBLE_EQ(closed_form_us(fabric, 0, 1, 1 << 20, options), 524.288 + 8.192 + 1.04 + 0.4);
  EXPECT_DOUBLE_EQ(closed_form_us(fabric, 0, 1, 100, options), 2 * 0.066 + 0.4);
}

/// A chain of switches with links of different speeds.
Fabric chain(const std::vector<double>& bandwidths) {
  topology::FabricBuilder builder("chain");
  int last = builder.add_host("a");
  for (size_t i = 0; i < bandwidths.size(); ++i) {
    const bool end = i + 1 == bandwidths.size();
    const int next = end ? builder.add_host("b") : builder.add_switch(fmt::format("s{}", i));
    EXPECT_TRUE(builder.connect(last, next, {bandwidths[i], 300}));
    last = next;
  }
  EXPECT_TRUE(builder.begin_routes());
  EXPECT_TRUE(builder.route_shortest());
  return builder.finish().value();
}

TEST(ClosedForm, HoldsForOneMessageAtBothLevels) {
  for (const auto& speeds : std::vector<std::vector<double>>{{2e9, 2e9},
                                                             {2e9, 2e9, 2e9, 2e9},
                                                             {1e9, 2e9, 4e9},
                                                             {4e9, 1e9, 4e9},
                                                             {4e9, 3e9, 1e9, 2e9}}) {
    const bool one_speed = std::count(speeds.begin(), speeds.end(), 2e9) > 1;
    const Fabric fabric = chain(speeds);
    for (const uint64_t bytes : {1, 2047, 2048, 2049, 100'000, 5'000'000}) {
      for (const bool cut_through : {true, false}) {
        for (const uint32_t header : {0, 40}) {
          for (const Queues queues : {Queues::kFifo, Queues::kVirtual, Queues::kOutput}) {
            for (NetworkOptions options : {packets(), flows()}) {
              options.cut_through = cut_through;
              options.header_bytes = header;
              options.queues = queues;
              const double expected = closed_form_us(fabric, 0, 1, bytes, options);
              EXPECT_NEAR(time_of(fabric, {{0, 1, bytes}}, options), expected,
                          expected * (one_speed ? 1e-5 : 0.01))
                  << bytes << " bytes, " << to_string(options.level) << ", "
                  << (cut_through ? "cut through" : "store and forward") << ", " << speeds.size()
                  << " links from " << speeds[0];
            }
          }
        }
      }
    }
  }
}

TEST(ClosedForm, HoldsForShiftsOnAFullFatTree) {
  const Fabric fabric = topology::k_ary_n_tree(4, 3).value();
  constexpr uint64_t kBytes = 200'000;
  for (const int shift : {1, 3, 4, 17, 32, 63}) {
    std::vector<Transfer> transfers;
    double expected = 0;
    for (int host = 0; host < fabric.hosts(); ++host) {
      const int to = (host + shift) % fabric.hosts();
      transfers.push_back({static_cast<uint32_t>(host), static_cast<uint32_t>(to), kBytes});
      expected = std::max(expected, closed_form_us(fabric, host, to, kBytes, {}));
    }
    EXPECT_NEAR(time_of(fabric, transfers, packets()), expected, expected * 0.01) << shift;
    EXPECT_NEAR(time_of(fabric, transfers, flows()), expected, expected * 0.01) << shift;
  }
}

TEST(Transfers, ShareABottleneckFairly) {
  const Fabric fabric = topology::single_switch(4).value();
  // Two into host 2: each at half the rate.
  for (const auto& options : {packets(), flows()}) {
    const auto times =
        simulate_transfers(fabric, std::vector<Transfer>{{0, 2, 1 << 20}, {1, 2, 1 << 20}}, options)
            .value();
    EXPECT_NEAR(times.time_us, 2 * 524.288, 5);
    for (const int64_t end : times.end_ns) EXPECT_NEAR(end, 2 * 524288, 5000);
    EXPECT_NEAR(times.max_link_utilisation, 1, 0.01);
    EXPECT_EQ(times.link_bytes[fabric.host_link(1)], 1u << 20);
  }
  // What host 1 has for host 3 takes what is left of its port.
  const std::vector<Transfer> transfers = {{0, 2, 1 << 20}, {1, 2, 1 << 20}, {1, 3, 1 << 20}};
  const auto times = simulate_transfers(fabric, transfers, flows()).value();
  for (const int64_t end : times.end_ns) EXPECT_NEAR(end, 2 * 524288, 1000);
  // With FIFO queues those for host 3 stand behind blocked ones for host 2.
  for (const Level level : {Level::kPacket, Level::kFlow}) {
    NetworkOptions options;
    options.level = level;
    EXPECT_GT(simulate_transfers(fabric, transfers, options)->time_us, 2 * 524.288 * 1.1);
  }
}

TEST(Transfers, OfOneSenderLeaveInOrder) {
  const Fabric fabric = topology::single_switch(3).value();
  const std::vector<Transfer> transfers = {{0, 1, 1 << 20, {}, 0, 5}, {0, 2, 1 << 20, {}, 0, 5}};
  for (const auto& options : {packets(), flows()}) {
    const auto times = simulate_transfers(fabric, transfers, options).value();
    EXPECT_NEAR(times.end_ns[0], 524'688, 10);
    EXPECT_NEAR(times.end_ns[1], 2 * 524'288 + 400, 10);
  }
}

TEST(Transfers, FollowEachOther) {
  const Fabric fabric = topology::single_switch(3).value();
  // Data, a token back from its receiver, and after a pause what that sets off; one to itself.
  const std::vector<Transfer> transfers = {
      {0, 1, 20'480}, {1, 2, 0, {0}}, {2, 1, 2048, {1}, 500}, {2, 2, 100, {0, 2}}};
  for (const auto& options : {packets(), flows()}) {
    const auto times = simulate_transfers(fabric, transfers, options).value();
    EXPECT_EQ(times.end_ns, (std::vector<int64_t>{10'640, 11'040, 12'964, 12'964}));
    EXPECT_EQ(times.begin_ns, (std::vector<int64_t>{0, 10'640, 11'540, 12'964}));
  }
}

TEST(Transfers, RefuseWhatCannotBe) {
  const Fabric fabric = topology::single_switch(3).value();
  const auto message = [&](const std::vector<Transfer>& transfers, NetworkOptions options = {}) {
    const auto times = simulate_transfers(fabric, transfers, options);
    return times ? "" : times.error().message;
  };
  EXPECT_THAT(message({{0, 3, 1}}), HasSubstr("no host 3"));
  EXPECT_THAT(message({{0, 1, 1, {7}}}), HasSubstr("comes after 7"));
  EXPECT_THAT(message({{0, 1, 1, {}, -5}}), HasSubstr("delay of -5"));
  EXPECT_THAT(message({{0, 1, 1}, {0, 1, 1, {2}}, {0, 1, 1, {1}}}),
              HasSubstr("transfer 1 never starts"));
  NetworkOptions options;
  options.mtu_bytes = 0;
  EXPECT_THAT(message({{0, 1, 1}}, options), HasSubstr("packets of 0 bytes"));
  options = {};
  options.buffer_packets = 0;
  EXPECT_THAT(message({{0, 1, 1}}, options), HasSubstr("buffers of 0 packets"));
}

/// Random transfers: both levels deliver all, no link is used beyond its rate, and nothing is
/// faster than alone.
RC_GTEST_PROP(Transfers, KeepToTheLinks, ()) {
  const Fabric fabric = topology::k_ary_n_tree(2, 3).value();
  const auto hosts = static_cast<uint32_t>(fabric.hosts());
  std::vector<Transfer> transfers;
  const auto count = *rc::gen::inRange<uint32_t>(1, 40);
  for (uint32_t i = 0; i < count; ++i) {
    Transfer transfer{*rc::gen::inRange<uint32_t>(0, hosts), *rc::gen::inRange<uint32_t>(0, hosts),
                      *rc::gen::inRange<uint64_t>(0, 60'000)};
    if (i > 0 && *rc::gen::inRange(0, 3) == 0) {
      transfer.after.push_back(*rc::gen::inRange<uint32_t>(0, i));
    }
    transfers.push_back(transfer);
  }
  for (NetworkOptions options : {packets(), flows()}) {
    options.queues = *rc::gen::element(Queues::kFifo, Queues::kVirtual, Queues::kOutput);
    options.nic = *rc::gen::element(Nic::kRandom, Nic::kRoundRobin, Nic::kOneAtATime);
    options.arbiter = *rc::gen::element(Arbiter::kRoundRobin, Arbiter::kRandom);
    options.buffer_packets = *rc::gen::inRange<uint32_t>(1, 20);
    const auto times = simulate_transfers(fabric, transfers, options);
    RC_ASSERT(times.has_value());
    RC_ASSERT(times->max_link_utilisation <= 1.0 + 1e-9);
    for (uint32_t i = 0; i < count; ++i) {
      const Transfer& transfer = transfers[i];
      const auto took = static_cast<double>(times->end_ns[i] - times->begin_ns[i]);
      if (transfer.from != transfer.to) {
        const double alone =
            closed_form_us(fabric, static_cast<int>(transfer.from), static_cast<int>(transfer.to),
                           transfer.bytes, options) *
            1e3;
        RC_ASSERT(took >= alone - 2);
      }
      for (const uint32_t before : transfer.after) {
        RC_ASSERT(times->begin_ns[i] >= times->end_ns[before]);
      }
    }
    const auto again = simulate_transfers(fabric, transfers, options);
    RC_ASSERT(again->end_ns == times->end_ns);
  }
}

TEST(Transfers, FillATorusWithoutDeadlock) {
  const Fabric fabric = topology::grid_fabric({5, 5}, true).value();
  NetworkOptions options;
  options.buffer_packets = 1;
  std::vector<Transfer> transfers;
  for (uint32_t from = 0; from < 25; ++from) {
    for (uint32_t to = 0; to < 25; ++to) transfers.push_back({from, to, 50'000});
  }
  EXPECT_TRUE(simulate_transfers(fabric, transfers, options).has_value());
  Routes routes(fabric, true);
  for (uint32_t from = 0; from < 25; ++from) {
    for (uint32_t to = 0; to < 25; ++to) {
      if (from == to) continue;
      EXPECT_TRUE(routes.add(from, to));
    }
  }
  EXPECT_GE(routes.lanes(), 2u);
  EXPECT_LE(routes.lanes(), 4u);
}

double saturated(int ports, const Destination& destination, Queues queues, uint32_t packets,
                 uint32_t buffer = 16) {
  TrafficOptions options;
  options.network.queues = queues;
  options.network.buffer_packets = buffer;
  options.packets = packets;
  const auto report =
      simulate_traffic(topology::single_switch(ports).value(), destination, options);
  EXPECT_TRUE(report.has_value()) << report.error().message;
  return report ? report->throughput : -1;
}

TEST(Traffic, SplitBetweenTwoBlocksAsThePaperSays) {
  for (const double alpha : {0.125, 0.25, 0.375, 0.5, 0.75}) {
    for (const int hosts : {3, 8}) {
      const double model = 1 - alpha * (1 - alpha);
      EXPECT_NEAR(saturated(hosts, two_destinations(hosts, alpha), Queues::kFifo, 20000), model,
                  0.03 * model)
          << alpha << ", " << hosts << " hosts";
    }
  }
}

// Karol, Hluchyj, Morgan 1987: table I (finite switches) and the limit 2 - sqrt 2.
TEST(Traffic, SaturatesInputQueuesAtTheTextbookRates) {
  EXPECT_NEAR(saturated(32, uniform_destination(32), Queues::kFifo, 6000), 0.586, 0.015);
  EXPECT_GT(saturated(16, uniform_destination(16), Queues::kVirtual, 6000, 1024), 0.97);
  EXPECT_GT(saturated(16, uniform_destination(16), Queues::kOutput, 6000), 0.97);
}

TEST(Traffic, FullSaturatesSixtyFourPortsAtTheLimit) {
  EXPECT_NEAR(saturated(64, uniform_destination(64), Queues::kFifo, 50000), 0.586, 0.01);
  EXPECT_GT(saturated(64, uniform_destination(64), Queues::kVirtual, 20000, 4096), 0.97);
}

TEST(Traffic, RefusesWhatItCannotSimulate) {
  const auto alone =
      simulate_traffic(topology::single_switch(1).value(), uniform_destination(1), {});
  ASSERT_FALSE(alone.has_value());
  EXPECT_THAT(alone.error().message, HasSubstr("at least 2"));
  TrafficOptions options;
  options.network.level = Level::kFlow;
  EXPECT_FALSE(
      simulate_traffic(topology::single_switch(4).value(), uniform_destination(4), options));
}

}  // namespace
}  // namespace ibcoll::sim
