/// ib_a2a_bench: all-to-all and its relatives between processes of this machine, timed and checked.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <optional>

#include "engine/base/json_lines.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "engine/core/context.h"
#include "engine/measure/bench_report.h"
#include "engine/measure/collective_bench.h"
#include "engine/schedule/layout.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::measure;

constexpr int64_t kMaxBlockBytes = int64_t{1} << 40;
constexpr int64_t kDeadlineNs = 60'000'000'000;

/// The command line as it was typed.
struct Arguments {
  std::optional<int64_t> ranks, servers;
  std::string layout, placement = "block", collective = "alltoall", algorithms = "auto", pacing;
  std::string sizes = "1K,64K,1M", batch = "1ms", json, plot;
  int iterations = 50, warmup = 5;
  bool check = false, user_memory = false, no_bind = false;
};

/// What it means.
struct BenchRun {
  BenchSetting setting;
  BenchRequest request;
  std::string plot;
};

Result<BenchRun> understand(const Arguments& arguments) {
  BenchRun run;
  IBCOLL_ASSIGN(const Placement placement, parse_placement(arguments.placement));
  std::optional<int64_t> ranks = arguments.ranks;
  if (!ranks && arguments.layout.empty())
    ranks = std::max<int64_t>(2, arguments.servers.value_or(2));
  IBCOLL_ASSIGN(run.setting.shape,
                shape_from_options(arguments.layout, ranks, arguments.servers, placement));
  if (run.setting.shape.ranks() > kMaxLaunchRanks) {
    return fail(ErrorCode::kInvalidArgument, "{} ranks are more than the limit of {} processes",
                run.setting.shape.ranks(), kMaxLaunchRanks);
  }
  IBCOLL_ASSIGN(run.setting.collective, parse_collective(arguments.collective));
  run.setting.user_memory = arguments.user_memory;
  run.setting.bound = !arguments.no_bind;

  BenchRequest& request = run.request;
  request.collective = run.setting.collective;
  IBCOLL_ASSIGN(request.contenders,
                select_contenders(request.collective, arguments.algorithms, arguments.pacing));
  IBCOLL_ASSIGN(request.sizes, parse_sizes(arguments.sizes));
  for (const int64_t size : request.sizes) {
    if (size > kMaxBlockBytes) {
      return fail(ErrorCode::kInvalidArgument, "size {} is over the limit of {} bytes a pair", size,
                  format_size(kMaxBlockBytes));
    }
  }
  if (request.collective == Collective::kBarrier) request.sizes = {0};
  IBCOLL_ASSIGN(request.batch_ns, parse_duration(arguments.batch));
  if (request.batch_ns > 60'000'000'000)
    return fail(ErrorCode::kInvalidArgument, "--batch {} is over the limit of 60s",
                arguments.batch);
  request.iterations = arguments.iterations;
  request.warmup = arguments.warmup;
  request.check = arguments.check;
  request.user_memory = arguments.user_memory;
  run.plot = arguments.plot;

  const int64_t needed = memory_needed(request, run.setting.shape.ranks());
  const auto available = static_cast<int64_t>(available_memory());
  if (needed > available) {
    return fail(
        ErrorCode::kNoMemory,
        "not enough memory: {} ranks with {} bytes a pair need about {:.1f} GB for buffers, "
        "{:.1f} GB are available",
        run.setting.shape.ranks(),
        format_size(*std::max_element(request.sizes.begin(), request.sizes.end())),
        static_cast<double>(needed) / 1e9, static_cast<double>(available) / 1e9);
  }
  return run;
}

/// Fails now rather than after the run where the file can't be written. Leaves its content alone.
Status check_writable(const std::string& path) {
  if (path.empty()) return {};
  const bool existed = access(path.c_str(), F_OK) == 0;
  const std::ofstream file(path, std::ios::app);
  if (!file) return fail_errno(fmt::format("can't write '{}'", path));
  if (!existed) unlink(path.c_str());
  return {};
}

/// What rank 0 shows while it measures.
class Display {
 public:
  Display(const BenchRun& run, JsonLines& json)
      : run_(run), json_(json), terminal_(isatty(STDERR_FILENO) != 0) {}

  void begin() {
    if (json_.to_stdout()) return;
    fmt::print("{}{}", describe_run(run_.setting, run_.request), table_header(run_.setting));
    std::fflush(stdout);
  }
  void progress(const std::string& what) {
    if (terminal_) fmt::print(stderr, "\r\033[K{} ...", what);
  }
  void row(const BenchRow& row) {
    if (terminal_) fmt::print(stderr, "\r\033[K");
    json_.write(to_json(run_.setting, row));
    // Not a Table: each row is shown as soon as it is measured.
    if (!json_.to_stdout()) fmt::print("{}", table_row(run_.setting, row));
    std::fflush(stdout);
    rows_.push_back(row);
  }
  Status finish() {
    if (!run_.plot.empty()) IBCOLL_TRY(bandwidth_plot(run_.setting, rows_).write(run_.plot));
    return json_.close();
  }

 private:
  const BenchRun& run_;
  JsonLines& json_;
  bool terminal_;
  std::vector<BenchRow> rows_;
};

Status run_rank(Bootstrap& bootstrap, BenchRun& run, JsonLines& json) {
  IBCOLL_ASSIGN(ContextOptions options, ContextOptions::from_environment(bootstrap.size()));
  options.shape = run.setting.shape;
  if (options.deadline_ns == 0) options.deadline_ns = kDeadlineNs;
  IBCOLL_ASSIGN(const std::unique_ptr<Context> context, Context::create(bootstrap, options));
  run.setting.transport = context->network() != nullptr ? context->network()->name() : "none";
  std::optional<Display> display;
  if (bootstrap.rank() == 0) display.emplace(run, json);
  if (display) display->begin();
  IBCOLL_TRY(run_bench(
      bootstrap, *context, run.request, [&](const BenchRow& row) { display->row(row); },
      [&](const std::string& what) { display->progress(what); }));
  if (display) IBCOLL_TRY(display->finish());
  return context->close();
}

int run_all(BenchRun& run, JsonLines& json) {
  LaunchOptions launch;
  launch.ranks = run.setting.shape.ranks();
  launch.bind = run.setting.bound;
  launch.on_failure = [](const Failure& failure) {
    fmt::print(stderr, "{}ib_a2a_bench: {}\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
               failure.what);
  };
  const Result<int> status = launch_processes(launch, [&](Bootstrap& bootstrap) {
    const Status done = run_rank(bootstrap, run, json);
    if (done) return 0;
    bootstrap.abort({bootstrap.rank(), done.error().code, done.error().message});
    return 1;
  });
  if (status) return *status;
  fmt::print(stderr, "ib_a2a_bench: {}\n", status.error().message);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times all-to-all, all-gather and barrier between processes of this machine");
  Arguments a;
  app.add_option("--ranks", a.ranks, "Processes to start (default 2)");
  app.add_option("--servers", a.servers, "Spread them over so many emulated servers (default 1)");
  app.add_option("--layout", a.layout, "Servers one by one: 3,1,2 or 24x8 (24 servers of 8 ranks)");
  app.add_option("--placement", a.placement, "How ranks are dealt to servers: block or cyclic")
      ->capture_default_str();
  app.add_option("--collective", a.collective, "alltoall, alltoallv, allgather or barrier")
      ->capture_default_str();
  app.add_option("--algorithm", a.algorithms, "Names, or all, or auto (the engine chooses)")
      ->capture_default_str();
  app.add_option("--pacing", a.pacing,
                 "Of paced algorithms: free, gate, token, gate_token, auto; several are compared");
  app.add_option("--sizes", a.sizes, "Bytes a pair: 1K,64K,1M or 64-4M (doubling) or 64-4M:4")
      ->capture_default_str();
  app.add_option("--iterations", a.iterations, "Timed iterations of each size and algorithm")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--warmup", a.warmup, "Calls before the first iteration")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--batch", a.batch,
                 "An iteration is as many calls back to back as take this long, at least one")
      ->capture_default_str();
  app.add_flag("--check", a.check, "Compare every received byte in every iteration");
  app.add_flag("--user-memory", a.user_memory, "Private memory instead of the engine's own");
  app.add_flag("--no-bind", a.no_bind, "Leave the choice of cores to the system");
  app.add_option("--json", a.json, "Write one object a line to this file (- : stdout)");
  app.add_option("--plot", a.plot, "Draw bandwidth over size into this SVG file");
  app.footer(
      "Examples:\n"
      "  ib_a2a_bench --ranks 8 --servers 4 --algorithm all --sizes 64-1M:4 --check\n"
      "  ib_a2a_bench --layout 3,1,2 --algorithm two_level_ring --pacing free,gate,gate_token\n"
      "  ib_a2a_bench --ranks 4 --user-memory --json - | jq .median_us\n"
      "What the columns mean: docs/benchmarking.md.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "ib_a2a_bench: {}\n", error.what());
    return 2;
  }
  const Result<int> status = [&]() -> Result<int> {
    IBCOLL_ASSIGN(BenchRun run, understand(a));
    IBCOLL_TRY(check_writable(run.plot));
    IBCOLL_ASSIGN(JsonLines json, JsonLines::open(a.json));
    return run_all(run, json);
  }();
  if (status) return *status;
  fmt::print(stderr, "ib_a2a_bench: {}\n", status.error().message);
  return 2;
}
