/// program_bench: how long one rank takes to build its program, and how much memory it then holds,
/// for every algorithm in jobs up to 10 240 ranks.

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/algorithms/registry.h"

namespace {

using namespace ibcoll;

constexpr int kRanksPerServer = 8;

/// Bytes by which the resident memory of a process grows at most while it builds the program. In a
/// child, whose high-water mark starts at what it inherits.
double peak_growth_bytes(const Algorithm& algorithm, const Shape& shape, Rank me) {
  int channel[2];
  if (pipe(channel) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    malloc_trim(0);
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    const auto program = algorithm.build(shape, me, {});
    benchmark::DoNotOptimize(program.get());
    getrusage(RUSAGE_SELF, &after);
    const double grown = 1024.0 * static_cast<double>(after.ru_maxrss - before.ru_maxrss);
    _exit(write(channel[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  double grown = -1;
  if (read(channel[0], &grown, sizeof grown) != sizeof grown) grown = -1;
  close(channel[0]);
  close(channel[1]);
  waitpid(child, nullptr, 0);
  return grown;
}

void build_program(benchmark::State& state, const Algorithm& algorithm) {
  const int servers = static_cast<int>(state.range(0));
  const Shape shape =
      *Shape::from_layout(std::vector<int>(servers, kRanksPerServer), Placement::kBlock);
  const Rank me = shape.ranks() / 2 + 3;
  state.counters["peak_bytes"] = peak_growth_bytes(algorithm, shape, me);
  std::shared_ptr<const RankProgram> program;
  for ([[maybe_unused]] auto _ : state) {
    program = algorithm.build(shape, me, {});
    benchmark::DoNotOptimize(program.get());
  }
  state.counters["operations"] = static_cast<double>(program->size());
  state.counters["program_bytes"] = static_cast<double>(program->memory_bytes());
}

}  // namespace

int main(int argc, char** argv) {
  for (const Algorithm& algorithm : algorithms()) {
    const std::string name =
        std::string(to_string(algorithm.collective)) + "/" + std::string(algorithm.name);
    benchmark::RegisterBenchmark(
        name.c_str(), [&algorithm](benchmark::State& state) { build_program(state, algorithm); })
        ->ArgName("servers_of_8")
        ->Arg(16)
        ->Arg(128)
        ->Arg(1280)
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
