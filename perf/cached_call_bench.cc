/// cached_call_bench: what it costs a rank to find what it has planned before, for the calls of a
/// job of 64 and of 512 servers on a network that is known: the plan of contention_free, its
/// program, and everything up to the first operation.

#include <benchmark/benchmark.h>

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "engine/core/call.h"
#include "engine/core/context.h"

namespace {

using namespace ibcoll;

constexpr size_t kBlock = 64;  // what a call is bound to; nothing is sent

/// Calls `body` on rank 0 of a job of so many single-rank servers.
Status in_job(int ranks, const std::function<Status(Context&)>& body) {
  Status result;
  const RankMain main = [&](Bootstrap& bootstrap) {
    ContextOptions options;
    options.shape = *Shape::from_layout(std::vector<int>(ranks, 1), Placement::kBlock);
    options.transport = "loopback";
    options.heap_bytes = size_t{1} << 20;
    options.fabric.fabric = fmt::format("single-switch:{}", ranks);
    auto context = Context::create(bootstrap, options);
    if (!context) {
      if (bootstrap.rank() == 0) result = tl::unexpected<Error>(context.error());
      return 1;
    }
    if (bootstrap.rank() == 0) result = body(**context);
    return bootstrap.barrier() && (*context)->close() ? 0 : 1;
  };
  const Result<int> status = launch_threads(ranks, main);
  if (!status) return tl::unexpected<Error>(status.error());
  return result;
}

constexpr Collective kCollectivesAsked[] = {Collective::kAlltoall, Collective::kGather,
                                            Collective::kAlltoallv, Collective::kAllgatherv};

/// What calls are given.
class Buffers {
 public:
  explicit Buffers(int ranks) : send_(ranks * kBlock), recv_(ranks * kBlock) {
    for (int i = 0; i < ranks; ++i) {
      counts_.push_back(kBlock - i % 3);
      places_.push_back(static_cast<int64_t>(i * kBlock));
    }
  }
  CallArguments arguments(Collective collective, const char* algorithm) {
    CallArguments a;
    a.collective = collective;
    a.send = send_.data();
    a.recv = recv_.data();
    a.block_bytes = kBlock;
    a.send_counts = a.recv_counts = counts_.data();
    a.send_displacements = a.recv_displacements = places_.data();
    a.own_count = counts_[0];
    a.options.algorithm = algorithm;
    return a;
  }

 private:
  std::vector<std::byte> send_, recv_;
  std::vector<int64_t> counts_, places_;
};

/// What is planned by 64 calls is not measured.
void add(const std::string& name, std::function<Status()> call) {
  benchmark::RegisterBenchmark(name.c_str(), [call = std::move(call)](benchmark::State& state) {
    for (int i = 0; i < 64; ++i) (void)call();
    for ([[maybe_unused]] auto _ : state) {
      if (const Status done = call(); !done) {
        state.SkipWithError(done.error().message.c_str());
        return;
      }
    }
  });
}

void add_all(Context& context, Buffers& buffers) {
  const int ranks = context.size();
  Group& group = context.world();
  for (const Collective asked : kCollectivesAsked) {
    const CallArguments arguments = buffers.arguments(asked, "contention_free");
    const auto find = [&group, arguments, ranks](int64_t bytes) -> Status {
      const bool unequal = is_unequal(arguments.collective);
      std::span<const int64_t> counts;
      if (arguments.collective == Collective::kAllgatherv) {
        counts = {arguments.recv_counts, static_cast<size_t>(ranks)};
      }
      auto plan = group.plans().find(arguments.collective, unequal ? -1 : bytes, 0,
                                     arguments.options, counts);
      if (!plan) return tl::unexpected<Error>(plan.error());
      benchmark::DoNotOptimize((*plan)->program);
      return {};
    };
    const std::string suffix = fmt::format("/{}/{}", to_string(asked), ranks);
    add("same_call" + suffix, [find] { return find(65536); });
    if (!is_unequal(asked)) {
      add("sizes_in_turn" + suffix, [find, i = 0]() mutable {
        constexpr int kSizes = 32;  // more than are kept side by side; of two size classes
        return find(65536 + 1024 * (i = (i + 1) % kSizes));
      });
    }
    add("prepare" + suffix,
        [call = std::make_shared<Call>(group), arguments] { return call->prepare(arguments); });
  }
}

/// Jobs of these sizes, one inside the other: the library runs what is registered only once.
Status measure(std::span<const int> sizes) {
  if (sizes.empty()) {
    benchmark::RunSpecifiedBenchmarks();
    benchmark::ClearRegisteredBenchmarks();  // they refer to the jobs
    return {};
  }
  return in_job(sizes.front(), [&](Context& context) {
    Buffers buffers(context.size());
    add_all(context, buffers);
    return measure(sizes.subspan(1));
  });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (const Status done = measure(std::array{64, 512}); !done) {
    fmt::print(stderr, "cached_call_bench: {}\n", done.error().message);
    return 1;
  }
  benchmark::Shutdown();
  return 0;
}
