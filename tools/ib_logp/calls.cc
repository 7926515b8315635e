#include "tools/ib_logp/calls.h"

#include <fmt/format.h>

#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/bootstrap/join.h"
#include "engine/bootstrap/launch.h"
#include "engine/schedule/layout.h"
#include "studies/measure/call_costs.h"
#include "tools/frame/frame.h"

namespace ibcoll::tools {
namespace {

using namespace measure;

constexpr int64_t kDeadlineNs = 60'000'000'000;

struct CallsRun {
  std::optional<Shape> shape;  ///< none: the servers that a launcher's ranks are found on
  std::string transport;
  CallCostSettings settings;
};

Result<CallsRun> understand(const CallsArguments& a, std::optional<int64_t> launched) {
  constexpr int64_t kMaxBytes = int64_t{64} << 20;
  CallsRun run{.shape = {}, .transport = a.transport, .settings = {}};
  if (launched && a.ranks && *a.ranks != *launched)
    return fail(ErrorCode::kInvalidArgument, "--ranks {}, but the launcher has started {}",
                *a.ranks, *launched);
  if (!launched || a.servers) {
    const int64_t ranks = launched ? *launched : a.ranks.value_or(4);
    const int64_t servers = a.servers.value_or(ranks > 2 ? 2 : 1);
    IBCOLL_ASSIGN(run.shape, shape_from_options("", ranks, servers, Placement::kBlock));
    if (run.shape->servers() == 1 && !a.transport.empty() && a.transport != "auto" &&
        a.transport != "shm")
      return fail(ErrorCode::kInvalidArgument,
                  "--transport {} joins servers, but all ranks are on one: say --servers",
                  a.transport);
    if (ranks < 2) return fail(ErrorCode::kInvalidArgument, "--ranks {}: at least 2", ranks);
    if (ranks > kMaxLaunchRanks)
      return fail(ErrorCode::kInvalidArgument, "--ranks {}: at most {}", ranks, kMaxLaunchRanks);
  }
  if (a.rounds < 10 || a.rounds > 100'000)
    return fail(ErrorCode::kInvalidArgument, "--rounds {}: must be 10 to 100000", a.rounds);
  run.settings.rounds = a.rounds;
  run.settings.pauses = std::min(run.settings.pauses, a.rounds);
  IBCOLL_ASSIGN(run.settings.sizes,
                parse_sizes(a.sizes.empty() ? "8,512,4K,32K,256K,1M" : a.sizes));
  for (const int64_t size : run.settings.sizes) {
    if (size < 1 || size > kMaxBytes)
      return fail(ErrorCode::kInvalidArgument, "message size {}: must be 1 to {} bytes", size,
                  kMaxBytes);
  }
  return run;
}

void show(const std::vector<CallCosts>& all, Context& context, double operation_ns,
          JsonLines& json) {
  const double ranks_per_core =
      static_cast<double>(context.job().ranks_on_machine()) / std::max(1, usable_cores());
  Table table({"layer", "transport", "bytes", "hop us", "99 %", "most", "gap us", "99 %", "wake us",
               "99 %"});
  const auto us = [](double ns) { return fmt::format("{:.2f}", ns / 1000); };
  for (const CallCosts& costs : all) {
    table.add_row({to_string(costs.layer), costs.transport, std::to_string(costs.bytes),
                   us(costs.hop_ns), us(costs.hop_p99_ns), us(costs.hop_max_ns), us(costs.gap_ns),
                   us(costs.gap_p99_ns), us(costs.wake_ns), us(costs.wake_p99_ns)});
    json.write({{"layer", to_string(costs.layer)},
                {"transport", costs.transport},
                {"bytes", costs.bytes},
                {"hop_ns", costs.hop_ns},
                {"hop_p99_ns", costs.hop_p99_ns},
                {"hop_max_ns", costs.hop_max_ns},
                {"gap_ns", costs.gap_ns},
                {"gap_p99_ns", costs.gap_p99_ns},
                {"wake_ns", costs.wake_ns},
                {"wake_p99_ns", costs.wake_p99_ns},
                {"operation_p99_ns", operation_ns},
                {"pairs", costs.pairs},
                {"ranks", context.size()},
                {"servers", context.shape().servers()},
                {"ranks_per_core", ranks_per_core}});
  }
  if (json.to_stdout()) return;
  print("{} ranks, {:.2f} a core; programs: {:.0f} ns an operation\n{}", context.size(),
        ranks_per_core, operation_ns, table.text());
}

Status run_rank(Bootstrap& bootstrap, const CallsRun& run, JsonLines& json) {
  IBCOLL_ASSIGN(ContextOptions options, run.shape
                                            ? ContextOptions::from_environment(run.shape)
                                            : ContextOptions::from_environment(bootstrap.size()));
  if (!run.transport.empty()) options.transport = run.transport;
  if (options.deadline_ns == 0) options.deadline_ns = kDeadlineNs;
  IBCOLL_ASSIGN(const std::unique_ptr<Context> context, Context::create(bootstrap, options));
  IBCOLL_ASSIGN(const auto all, measure_call_costs(bootstrap, *context, run.settings));
  IBCOLL_ASSIGN(const double operation_ns, measure_program_cost(bootstrap, run.settings.rounds));
  if (bootstrap.rank() == 0) {
    show(all, *context, operation_ns, json);
    IBCOLL_TRY(json.close());
    IBCOLL_TRY(flush_output());
  }
  return context->close();
}

/// One rank; the result is its exit status.
int run_and_report(Bootstrap& bootstrap, const CallsRun& run, JsonLines& json) {
  const Status done = run_rank(bootstrap, run, json);
  if (done) return 0;
  bootstrap.abort({bootstrap.rank(), done.error().code, done.error().message});
  return exit_status(done.error());
}

/// Is one of the ranks that a launcher has started.
int run_launched(Bootstrap& bootstrap, const CallsArguments& arguments) {
  const auto run = understand(arguments, bootstrap.size());
  auto json = JsonLines::open(run && bootstrap.rank() == 0 ? arguments.json : "");
  int status = 0;
  if (run && json) {
    status = run_and_report(bootstrap, *run, *json);
  } else {
    const Error& error = run ? json.error() : run.error();
    bootstrap.abort({bootstrap.rank(), error.code, error.message});
    status = exit_status(error);
  }
  const auto failure = bootstrap.failure();
  if (failure && bootstrap.rank() == (failure->culprit == 0 ? 1 : 0)) complain(failure->what);
  return status;
}

}  // namespace

Result<int> run_calls(const CallsArguments& arguments) {
  if (started_by_launcher()) {
    IBCOLL_ASSIGN(const std::unique_ptr<Bootstrap> bootstrap, join_job());
    if (bootstrap->size() > 1) return run_launched(*bootstrap, arguments);
  }
  IBCOLL_ASSIGN(const CallsRun run, understand(arguments, std::nullopt));
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(arguments.json));
  LaunchOptions launch;
  launch.ranks = run.shape->ranks();
  launch.on_failure = [](const Failure& failure) { complain(failure.what); };
  return launch_processes(
      launch, [&](Bootstrap& bootstrap) { return run_and_report(bootstrap, run, json); });
}

}  // namespace ibcoll::tools
