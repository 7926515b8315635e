/// copy_bench: which copy kernel wins at which block size and total footprint. Ranks copy the
/// blocks of an all-to-all and wait for nobody (studies/measure/copy_speed.h).

#include <benchmark/benchmark.h>

#include <array>

#include "engine/base/units.h"
#include "engine/bootstrap/binding.h"
#include "engine/bootstrap/launch.h"
#include "studies/measure/copy_speed.h"

namespace {

using namespace ibcoll;
using measure::CopySpeed;
using measure::Traffic;

constexpr int kSamples = 15;

struct Kernel {
  const char* name;
  CopyKernel copy;
};
constexpr std::array<Kernel, 3> kKernels = {Kernel{"memcpy", copy_plain},
                                            Kernel{"streaming", copy_streaming},
                                            Kernel{"rep_movsb", copy_rep_movsb}};

Result<std::vector<double>> one_rank(Bootstrap& bootstrap, const Traffic& traffic,
                                     CopyKernel kernel) {
  IBCOLL_ASSIGN(const std::vector<CpuSet> cores, usable_core_sets());
  const std::vector<CpuSet> binding = plan_binding(bootstrap.size(), cores);
  if (!binding.empty()) IBCOLL_TRY(bind_thread(binding[bootstrap.rank()]));
  IBCOLL_ASSIGN(CopySpeed speed, CopySpeed::create(bootstrap, traffic));
  return speed.time_calls(traffic, kernel, kSamples);
}

void copy_blocks(benchmark::State& state, const Kernel& kernel) {
  const Traffic traffic(Collective::kAlltoall, static_cast<int>(state.range(0)), state.range(1));
  std::vector<double> calls;
  std::string error;
  const auto launched = launch_threads(traffic.ranks(), [&](Bootstrap& bootstrap) {
    auto mine = one_rank(bootstrap, traffic, kernel.copy);
    if (!mine) bootstrap.abort({bootstrap.rank(), mine.error().code, mine.error().message});
    const int status = mine ? 0 : 1;
    if (bootstrap.rank() == 0 && mine) calls = *std::move(mine);
    return status;
  });
  if (!launched || calls.empty()) {
    state.SkipWithError("the ranks failed");
    return;
  }
  size_t call = 0;
  for ([[maybe_unused]] auto _ : state) state.SetIterationTime(calls[call++] * 1e-9);
  state.SetBytesProcessed(state.iterations() * traffic.total_bytes());
  state.SetLabel("footprint " + format_size(traffic.footprint_bytes()));
}

}  // namespace

int main(int argc, char** argv) {
  for (const Kernel& kernel : kKernels) {
    benchmark::RegisterBenchmark(kernel.name,
                                 [&kernel](benchmark::State& state) { copy_blocks(state, kernel); })
        ->ArgNames({"ranks", "block"})
        ->ArgsProduct(
            {{2, 4, 8}, {1 << 10, 8 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20}})
        ->Iterations(kSamples)
        ->UseManualTime();
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
