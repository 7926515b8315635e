/// simulate_bench: how fast the simulator is, and what switches do under saturated traffic.

#include <benchmark/benchmark.h>

#include "engine/schedule/layout.h"
#include "studies/simulate/collective.h"
#include "studies/simulate/traffic.h"
#include "topology/generators.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::sim;

void report_events(benchmark::State& state, uint64_t events) {
  state.counters["events"] = static_cast<double>(events);
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events),
                                                  benchmark::Counter::kIsIterationInvariantRate);
}

/// Saturated traffic through one switch; its throughput as part of the links' rate.
void traffic(benchmark::State& state, int ports, const Destination& destination, Queues queues,
             uint32_t buffer_packets) {
  const auto fabric = topology::single_switch(ports).value();
  TrafficOptions options;
  options.network.queues = queues;
  options.network.buffer_packets = buffer_packets;
  TrafficReport report;
  for (auto _ : state) report = simulate_traffic(fabric, destination, options).value();
  state.counters["throughput"] = report.throughput;
  report_events(state, report.events);
}

/// Alltoall of 1 MB a pair, 2 KB packets; the part of the link's rate it reaches.
void alltoall(benchmark::State& state, const char* algorithm, const char* layout, Mode mode,
              Level level) {
  const Shape shape = parse_layout(layout).value();
  const auto fabric = topology::single_switch(shape.servers()).value();
  CollectiveOptions options;
  options.mode = mode;
  options.network.level = level;
  options.run.block_bytes = 1 << 20;
  CollectiveReport report;
  for (auto _ : state) {
    report = simulate(**find_algorithm(Collective::kAlltoall, algorithm), shape, fabric, options)
                 .value();
  }
  state.counters["of_link"] = report.link_fraction;
  report_events(state, report.events);
}

void add_all() {
  constexpr int kDeepBuffer = 4096;  // the textbook's inputs have no end
  for (const int ports : {2, 4, 8, 16, 32, 64}) {
    for (const Queues queues : {Queues::kFifo, Queues::kVirtual, Queues::kOutput}) {
      if (ports == 2 && queues != Queues::kFifo) continue;
      benchmark::RegisterBenchmark(
          fmt::format("uniform/{}/ports:{}", to_string(queues), ports).c_str(), traffic, ports,
          uniform_destination(ports), queues, kDeepBuffer);
    }
  }
  for (const double alpha : {0.125, 0.25, 0.375, 0.5}) {
    benchmark::RegisterBenchmark(fmt::format("two_destinations/fifo/alpha:{}", alpha).c_str(),
                                 traffic, 8, two_destinations(8, alpha), Queues::kFifo, 16);
  }
  for (const char* algorithm : {"ring", "two_level_ring"}) {
    benchmark::RegisterBenchmark(fmt::format("alltoall/packet/24x8/{}", algorithm).c_str(),
                                 alltoall, algorithm, "24x8", Mode::kBarrier, Level::kPacket);
    benchmark::RegisterBenchmark(fmt::format("alltoall/flow/128x8/{}", algorithm).c_str(), alltoall,
                                 algorithm, "128x8", Mode::kPaced, Level::kFlow);
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  add_all();
  benchmark::RunSpecifiedBenchmarks();
}
