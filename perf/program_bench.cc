/// program_bench: how long one rank takes to build its program, and how much memory it then holds,
/// for every algorithm in jobs up to 102 400 ranks. `of_limit` is the time in parts of 50 ms and
/// 4 us an operation: what grows faster than the rank's own operations is above 1 in large jobs.

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>

#include "engine/algorithms/registry.h"
#include "engine/core/plan_sources.h"
#include "engine/core/program_cache.h"
#include "engine/execute/executor.h"
#include "perf/support/empty_transports.h"
#include "studies/measure/graph_patterns.h"

namespace {

using namespace ibcoll;

struct Layout {
  const char* name;
  int servers, ranks_per_server;
};
constexpr Layout kLayouts[] = {{"16x8", 16, 8},     {"128x8", 128, 8},     {"512x8", 512, 8},
                               {"1280x8", 1280, 8}, {"12800x8", 12800, 8}, {"800x128", 800, 128}};

/// Whose program is built.
struct Place {
  const char* name;
  Rank (*rank)(int ranks);
};
constexpr Place kPlaces[] = {{"first", [](int) { return 0; }},
                             {"middle", [](int ranks) { return ranks / 2 + 3; }},
                             {"last", [](int ranks) { return ranks - 1; }}};

/// What happens in a child process, as a number of bytes; a child starts with a heap and a
/// high-water mark of its own.
double in_child(const std::function<double()>& measure) {
  int channel[2];
  if (pipe(channel) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    const double bytes = measure();
    _exit(write(channel[1], &bytes, sizeof bytes) == sizeof bytes ? 0 : 1);
  }
  close(channel[1]);
  double bytes = -1;
  if (read(channel[0], &bytes, sizeof bytes) != sizeof bytes) bytes = -1;
  close(channel[0]);
  waitpid(child, nullptr, 0);
  return bytes;
}

/// As calls get it.
ProgramPtr make(const Algorithm& algorithm, const Shape& shape, Rank me,
                const AlgorithmOptions& options) {
  return ProgramCache(PlanSources::kProgramBytes).find(algorithm, shape, me, options);
}

double heap_bytes() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

/// Bytes of resident memory that building the program takes at its peak, over what the heap has
/// free anyway.
double build_peak_bytes(const Algorithm& algorithm, const Shape& shape, Rank me,
                        const AlgorithmOptions& options) {
  malloc_trim(0);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const auto program = make(algorithm, shape, me, options);
  benchmark::DoNotOptimize(program.get());
  getrusage(RUSAGE_SELF, &after);
  return 1024.0 * static_cast<double>(after.ru_maxrss - before.ru_maxrss);
}

/// Of neighbour collectives: 26 neighbours a rank, in a periodic grid.
AlgorithmOptions options_for(const Algorithm& algorithm, const Shape& shape) {
  AlgorithmOptions options;
  if (!has_graph(algorithm.collective)) return options;
  const int ranks = shape.ranks();
  int a = 4, b = 4;
  while (2 * a * a * b <= ranks && ranks % (2 * a * b) == 0) (a == b ? b : a) *= 2;
  options.graph = *measure::parse_graph(fmt::format("grid:{}x{}x{}", a, b, ranks / (a * b)), shape);
  return options;
}

/// Bytes of heap that a rank holds while a call of this program is under way: the program and the
/// executor's state of the call.
double call_bytes(const Algorithm& algorithm, const Shape& shape, Rank me,
                  const AlgorithmOptions& options) {
  perf::LoneBootstrap bootstrap(shape.ranks());
  perf::EmptyLocal local;
  perf::EmptyNetwork network;
  Bell bell;
  Executor executor(bootstrap, local, &network, bell, [] { return std::nullopt; }, {});
  GroupState group(shape);
  group.me = me;
  group.to_job = RankList::consecutive(0, static_cast<size_t>(shape.ranks()));
  const double before = heap_bytes();
  const auto program = make(algorithm, shape, me, options);
  Binding binding;
  std::byte memory{};
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv, Buffer::kScratch})
    binding[buffer].base = &memory;
  const Reduction sum = *find_reduction(ElementType::kInt64, Operator::kSum);
  if (reduces(algorithm.collective)) {
    binding.reduction = &sum;
    binding.grain = sum.element_bytes;
  }
  Completion completion;
  if (!executor.post(group, *program, binding, completion)) return -1;
  executor.progress();
  return heap_bytes() - before;
}

void build_program(benchmark::State& state, const Algorithm& algorithm, const Layout& layout,
                   const Place& place) {
  const Shape shape = *Shape::from_layout(std::vector<int>(layout.servers, layout.ranks_per_server),
                                          Placement::kBlock);
  const Rank me = place.rank(shape.ranks());
  const AlgorithmOptions options = options_for(algorithm, shape);
  state.counters["build_peak_bytes"] =
      in_child([&] { return build_peak_bytes(algorithm, shape, me, options); });
  state.counters["call_bytes"] =
      in_child([&] { return call_bytes(algorithm, shape, me, options); });
  using Clock = std::chrono::steady_clock;
  double best_s = 1e9;
  ProgramPtr program;
  for ([[maybe_unused]] auto _ : state) {
    const Clock::time_point begin = Clock::now();
    program = make(algorithm, shape, me, options);
    benchmark::DoNotOptimize(program.get());
    best_s = std::min(best_s, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  const auto operations = static_cast<double>(program->size());
  state.counters["operations"] = operations;
  state.counters["program_bytes"] = static_cast<double>(program->memory_bytes());
  state.counters["of_limit"] = best_s / (0.05 + 4e-6 * operations);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Algorithm& algorithm : algorithms()) {
    // A plan of so many servers is not made; what follows one is as long as the plan.
    if (algorithm.spec->planned) continue;
    for (const Layout& layout : kLayouts) {
      for (const Place& place : kPlaces) {
        const std::string name = fmt::format("{}/{}/{}/{}", to_string(algorithm.collective),
                                             algorithm.name, layout.name, place.name);
        const auto run = [&](benchmark::State& state) {
          build_program(state, algorithm, layout, place);
        };
        benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMicrosecond);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
