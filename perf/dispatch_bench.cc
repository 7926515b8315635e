/// dispatch_bench: what the executor itself costs, with transports that do nothing: an operation,
/// and a call without operations.

#include <benchmark/benchmark.h>

#include <functional>

#include "engine/execute/executor.h"
#include "engine/schedule/builder.h"
#include "perf/support/empty_transports.h"

namespace {

using namespace ibcoll;

constexpr int kOperations = 512;
constexpr int kRanks = kOperations + 1;

/// Runs the program that `write` writes for rank 0 of kRanks on one server, again and again.
void run_program(benchmark::State& state, const std::function<void(ProgramBuilder&)>& write) {
  perf::LoneBootstrap bootstrap(kRanks);
  perf::EmptyLocal local;
  Bell bell;
  Executor executor(bootstrap, local, nullptr, bell, [] { return std::nullopt; }, {});
  GroupState group(Shape::single_server(kRanks));
  group.to_job = RankList::consecutive(0, kRanks);
  ProgramBuilder builder(Collective::kAlltoall, "bench", group.shape, 0, {});
  write(builder);
  const auto program = builder.finish();
  std::byte memory[64] = {};
  Binding binding;
  binding[Buffer::kSend].base = binding[Buffer::kRecv].base = memory;
  Completion completion;
  for ([[maybe_unused]] auto _ : state) {
    if (!executor.post(group, *program, binding, completion) || !executor.wait(completion)) {
      state.SkipWithError("the call failed");
      return;
    }
  }
  if (program->size() == 0) return;
  state.counters["per_operation"] = benchmark::Counter(
      static_cast<double>(program->size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

const Slice kTheirs{Buffer::kSend, 1, 1};
const Slice kPlace{Buffer::kRecv, 0, 1};
const Slice kFromThem{Buffer::kRecv, 1, 1};

/// A call with nothing to do: what posting and finishing cost.
void post_and_finish(benchmark::State& state) {
  run_program(state, [](ProgramBuilder&) {});
}

/// Puts in strict order.
void put_in_order(benchmark::State& state) {
  run_program(state, [](ProgramBuilder& builder) {
    for (int i = 0; i < kOperations; ++i) builder.put(1, kTheirs, kPlace);
  });
}

/// Puts that may be carried out in any order: one to each peer.
void put_relaxed(benchmark::State& state) {
  run_program(state, [](ProgramBuilder& builder) {
    builder.begin_relaxed();
    for (int i = 0; i < kOperations; ++i) builder.put(1 + i, kTheirs, kPlace);
    builder.end_relaxed();
  });
}

/// Puts and expects in turn, where each expect comes after the put of what it overwrites.
void put_and_expect(benchmark::State& state) {
  run_program(state, [](ProgramBuilder& builder) {
    for (int i = 0; i < kOperations / 2; ++i) {
      builder.put(1, kFromThem, kPlace);
      builder.expect(1, kFromThem);
    }
  });
}

/// Copies of no bytes: nothing but dispatch.
void copy_nothing(benchmark::State& state) {
  run_program(state, [](ProgramBuilder& builder) {
    for (int i = 0; i < kOperations; ++i) builder.copy(kPlace, kTheirs);
  });
}

BENCHMARK(post_and_finish);
BENCHMARK(copy_nothing);
BENCHMARK(put_in_order);
BENCHMARK(put_relaxed);
BENCHMARK(put_and_expect);

}  // namespace

BENCHMARK_MAIN();
