/// check_bench: what IBCOLL_CHECK=data costs: the same calls of two jobs of the same ranks, of
/// which one checks every byte, by turns.

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/json_lines.h"
#include "engine/base/stats.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/core/call.h"
#include "engine/core/context.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;

struct Wanted {
  int ranks = 2, rounds = 31;
  std::string collectives = "alltoall,allgather,bcast,allreduce,reduce,reduce_scatter_block,scan";
  std::string elements = "int32:sum,int32:max,int32:band,double:sum";
  std::string sizes = "64K-4M:8";
  bool user_memory = false;
  std::string json;
};

struct Selection {
  std::vector<Collective> collectives;
  std::vector<Reduction> reductions;
  std::vector<int64_t> sizes;
};

Result<Selection> selection_of(const Wanted& wanted) {
  Selection selection;
  for (const std::string_view name : split(wanted.collectives, ',')) {
    IBCOLL_ASSIGN(const Collective collective, parse_collective(name));
    if (is_unequal(collective) || has_graph(collective) || !moves_data(collective))
      return fail(ErrorCode::kInvalidArgument, "{} is not one of those with equal blocks", name);
    selection.collectives.push_back(collective);
  }
  for (const std::string_view pair : split(wanted.elements, ',')) {
    const std::vector<std::string_view> parts = split(pair, ':');
    if (parts.size() != 2)
      return fail(ErrorCode::kInvalidArgument, "'{}' is not TYPE:OPERATOR, as int32:max", pair);
    IBCOLL_ASSIGN(const ElementType type, parse_element_type(parts[0]));
    IBCOLL_ASSIGN(const Operator op, parse_operator(parts[1]));
    IBCOLL_ASSIGN(const Reduction reduction, find_reduction(type, op));
    selection.reductions.push_back(reduction);
  }
  IBCOLL_ASSIGN(selection.sizes, parse_sizes(wanted.sizes));
  for (const int64_t bytes : selection.sizes) {
    for (const Reduction& reduction : selection.reductions) {
      if (bytes < reduction.element_bytes || bytes % reduction.element_bytes != 0)
        return fail(ErrorCode::kInvalidArgument, "{} bytes are no whole number of elements of {}",
                    bytes, to_string(reduction.element()));
    }
  }
  return selection;
}

/// One kind of call on one of the jobs.
class Calls {
 public:
  static Result<std::unique_ptr<Calls>> create(Context& context, Collective collective,
                                               const Reduction& reduction, int64_t bytes,
                                               bool user_memory) {
    auto self = std::make_unique<Calls>(context);
    const CollectiveTraits& row = traits(collective);
    const bool one = row.send.slots == Slots::kOne && row.recv.slots == Slots::kOne;
    const size_t all = static_cast<size_t>(bytes) * (one ? 1 : context.size());
    IBCOLL_ASSIGN(std::byte* const send, self->take(all, user_memory));
    IBCOLL_ASSIGN(std::byte* const recv, self->take(all, user_memory));
    // Small numbers of any type, another one on each rank.
    std::memset(send, 0, all);
    for (size_t i = 0; i < all; i += reduction.element_bytes)
      send[i] = static_cast<std::byte>((i / reduction.element_bytes + context.rank()) % 3);
    std::memset(recv, 0, all);
    CallArguments arguments;
    arguments.collective = collective;
    arguments.send = has_one_buffer(collective) ? recv : send;
    arguments.recv = recv;
    arguments.block_bytes = static_cast<size_t>(bytes);
    arguments.reduction = reduction;
    IBCOLL_TRY(self->call_.prepare(arguments));
    return self;
  }
  explicit Calls(Context& context) : context_(&context), call_(context.world()) {}
  ~Calls() {
    call_.release();
    for (std::byte* memory : shared_) (void)context_->free(memory);
  }

  Result<double> ns_each(int count) {
    const int64_t begin = now_ns();
    for (int i = 0; i < count; ++i) {
      IBCOLL_TRY(call_.start());
      IBCOLL_TRY(call_.wait());
    }
    return static_cast<double>(now_ns() - begin) / count;
  }

 private:
  Result<std::byte*> take(size_t bytes, bool user_memory) {
    if (user_memory) return own_.emplace_back(bytes).data();
    IBCOLL_ASSIGN(void* const memory, context_->allocate(bytes));
    return shared_.emplace_back(static_cast<std::byte*>(memory));
  }

  Context* context_;
  std::vector<std::vector<std::byte>> own_;
  std::vector<std::byte*> shared_;
  Call call_;
};

struct Costs {
  double off_us = 0, data_us = 0;  ///< the shortest
  double ratio = 0;                ///< the median of the rounds'
};

Result<Costs> measure(const std::array<Context*, 2>& jobs, Bootstrap& bootstrap,
                      const Wanted& wanted, Collective collective, const Reduction& reduction,
                      int64_t bytes) {
  std::array<std::unique_ptr<Calls>, 2> calls;
  for (size_t i = 0; i < 2; ++i) {
    IBCOLL_ASSIGN(calls[i],
                  Calls::create(*jobs[i], collective, reduction, bytes, wanted.user_memory));
  }
  // As many as take long enough to be timed; the same number on all ranks.
  const int count = static_cast<int>(1 + (2 << 20) / bytes);
  std::array<std::vector<double>, 3> samples;
  for (int round = -1; round < wanted.rounds; ++round) {
    std::array<double, 2> ns;
    for (size_t i = 0; i < 2; ++i) {
      IBCOLL_TRY(bootstrap.barrier());
      IBCOLL_ASSIGN(ns[i], calls[i]->ns_each(count));
    }
    if (round < 0) continue;
    for (size_t i = 0; i < 2; ++i) samples[i].push_back(ns[i]);
    samples[2].push_back(ns[1] / ns[0]);
  }
  IBCOLL_TRY(bootstrap.barrier());
  return Costs{minimum(samples[0]) / 1e3, minimum(samples[1]) / 1e3, median(samples[2])};
}

Status run_rank(Bootstrap& bootstrap, const Wanted& wanted, const Selection& selection) {
  std::array<std::unique_ptr<Context>, 2> contexts;
  std::array<Context*, 2> jobs;
  for (size_t i = 0; i < 2; ++i) {
    ContextOptions options;
    options.check = i == 0 ? CheckMode::kOff : CheckMode::kData;
    IBCOLL_ASSIGN(contexts[i], Context::create(bootstrap, options));
    jobs[i] = contexts[i].get();
  }
  const bool prints = bootstrap.rank() == 0;
  JsonLines json;
  if (prints) {
    IBCOLL_ASSIGN(json, JsonLines::open(wanted.json));
  }
  Table table({"collective", "elements", "bytes", "off us", "data us", "data/off"});
  for (const Collective collective : selection.collectives) {
    const size_t kinds = reduces(collective) ? selection.reductions.size() : 1;
    for (size_t kind = 0; kind < kinds; ++kind) {
      const Reduction reduction = reduces(collective) ? selection.reductions[kind] : Reduction{};
      const std::string elements =
          reduces(collective)
              ? fmt::format("{} {}", to_string(reduction.element()), to_string(reduction.op()))
              : "";
      for (const int64_t bytes : selection.sizes) {
        IBCOLL_ASSIGN(const Costs costs,
                      measure(jobs, bootstrap, wanted, collective, reduction, bytes));
        table.add_row({to_string(collective), elements, std::to_string(bytes),
                       fmt::format("{:.1f}", costs.off_us), fmt::format("{:.1f}", costs.data_us),
                       fmt::format("{:.2f}", costs.ratio)});
        json.write({{"collective", to_string(collective)},
                    {"elements", elements},
                    {"bytes", bytes},
                    {"ranks", wanted.ranks},
                    {"user_memory", wanted.user_memory},
                    {"off_us", costs.off_us},
                    {"data_us", costs.data_us},
                    {"ratio", costs.ratio}});
      }
    }
  }
  for (auto& context : contexts) IBCOLL_TRY(context->close());
  if (prints && !json.to_stdout()) fmt::print("{}", table.text());
  return json.close();
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "What checking every byte (IBCOLL_CHECK=data) costs a call, on one machine");
  Wanted wanted;
  app.option("--ranks", wanted.ranks).with_default().between(1, 64);
  app.option("--collectives", wanted.collectives, "those with equal blocks").with_default();
  app.option("--elements", wanted.elements, "what reductions combine: TYPE:OPERATOR,...")
      .with_default();
  app.option("--sizes", wanted.sizes, "bytes of a block").with_default();
  app.option("--rounds", wanted.rounds, "of calls with and without, by turns")
      .with_default()
      .between(1, 100'000);
  app.flag("--user-memory", wanted.user_memory, "private memory instead of the engine's own");
  app.option("--json", wanted.json, "write one object a line to this file (-: standard output)");
  app.footer(
      "Times are the shortest, ratios the medians of the rounds'.\n"
      "Example: check_bench --collectives allreduce --elements int32:max,int64:sum --sizes 1M");
  return tools::run_tool_to_status(app, argc, argv, [&]() -> Result<int> {
    IBCOLL_ASSIGN(const Selection selection, selection_of(wanted));
    LaunchOptions launch;
    launch.ranks = wanted.ranks;
    return launch_processes(launch, [&](Bootstrap& bootstrap) {
      const Status done = run_rank(bootstrap, wanted, selection);
      if (done) return 0;
      tools::complain(fmt::format("rank {}: {}", bootstrap.rank(), done.error().message));
      return 1;
    });
  });
}
