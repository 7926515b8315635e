/// ib_a2a_bench: all-to-all and its relatives, timed and checked: between processes that it starts
/// on this machine, or that mpirun, mpiexec or srun have started.

#include <algorithm>
#include <fstream>
#include <iostream>
#include <optional>

#include "engine/base/config.h"
#include "engine/base/json_lines.h"
#include "engine/base/log.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/bootstrap/binding.h"
#include "engine/bootstrap/join.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "engine/core/context.h"
#include "engine/measure/bench_report.h"
#include "engine/measure/collective_bench.h"
#include "engine/measure/timeline.h"
#include "engine/schedule/layout.h"
#include "tools/frame/frame.h"
#include "tools/frame/progress.h"
#include "topology/spec.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::measure;

constexpr int64_t kMaxBlockBytes = int64_t{1} << 40;
constexpr int64_t kDeadlineNs = 60'000'000'000;

/// The command line as it was typed.
struct Arguments {
  std::optional<int64_t> ranks, servers;
  std::string layout, placement, collective = "alltoall", algorithms = "auto", pacing;
  std::string sizes = "1K,64K,1M", batch = "1ms", transport, network, json, plot, timeline;
  int iterations = 50, warmup = 5;
  int64_t root = 0;
  bool ordered = false, check = false, user_memory = false, no_bind = false;
};

/// What it means.
struct BenchRun {
  BenchSetting setting;
  bool shaped = true;     ///< setting.shape holds; else servers are what the ranks are found on
  std::string transport;  ///< empty: IBCOLL_TRANSPORT's
  std::string network;    ///< empty: IBCOLL_FABRIC's
  BenchRequest request;
  std::string plot, timeline;
};

/// A transport that was asked for has to have something to do.
Status check_transport(const std::string& transport, const Shape& shape) {
  if (shape.servers() > 1 || transport.empty() || transport == "auto" || transport == "shm")
    return {};
  return fail(ErrorCode::kInvalidArgument,
              "--transport {} joins servers, but all ranks are on one: say --servers or --layout",
              transport);
}

/// `here`: how many of the ranks are on this machine.
Status check_memory(const BenchRun& run, int here) {
  const int ranks = run.setting.shape.ranks();
  const int64_t needed = memory_needed(run.request, ranks) / ranks * here;
  const auto available = static_cast<int64_t>(available_memory());
  if (needed <= available) return {};
  return fail(ErrorCode::kNoMemory,
              "not enough memory: {} ranks with {} bytes a pair need about {:.1f} GB for buffers, "
              "{:.1f} GB are available",
              here,
              format_size(*std::max_element(run.request.sizes.begin(), run.request.sizes.end())),
              static_cast<double>(needed) / 1e9, static_cast<double>(available) / 1e9);
}

/// Where the command line names no servers, those of the environment count, as in any other job.
Result<Arguments> with_environment(Arguments arguments) {
  if (arguments.servers || !arguments.layout.empty()) return arguments;
  IBCOLL_ASSIGN(arguments.layout, config_string("IBCOLL_LAYOUT"));
  IBCOLL_ASSIGN(const int64_t servers, config_integer("IBCOLL_SERVERS"));
  if (servers != 0 && arguments.layout.empty()) arguments.servers = servers;
  if (arguments.placement.empty()) {
    IBCOLL_ASSIGN(arguments.placement, config_choice("IBCOLL_PLACEMENT"));
  }
  return arguments;
}

/// Who takes part. `launched`: as understand() has it.
Status understand_ranks(const Arguments& arguments, int launched, BenchRun& run) {
  IBCOLL_ASSIGN(const Placement placement,
                parse_placement(arguments.placement.empty() ? "block" : arguments.placement));
  std::optional<int64_t> ranks = arguments.ranks;
  run.setting.launched = launched > 0;
  if (launched > 0) {
    if (ranks && *ranks != launched)
      return fail(ErrorCode::kInvalidArgument, "--ranks {}, but the launcher has started {}",
                  *ranks, launched);
    ranks = launched;
    run.shaped = arguments.servers || !arguments.layout.empty();
  } else if (!ranks && arguments.layout.empty()) {
    ranks = std::max<int64_t>(2, arguments.servers.value_or(2));
  }
  IBCOLL_ASSIGN(run.setting.shape,
                shape_from_options(arguments.layout, ranks, arguments.servers, placement));
  run.transport = arguments.transport;
  if (run.shaped) IBCOLL_TRY(check_transport(run.transport, run.setting.shape));
  if (run.setting.shape.ranks() > kMaxLaunchRanks) {
    return fail(ErrorCode::kInvalidArgument, "{} ranks are more than the limit of {} processes",
                run.setting.shape.ranks(), kMaxLaunchRanks);
  }
  run.network = arguments.network;
  if (run.network.empty()) return {};
  // Refused here, in one line, rather than by every rank.
  IBCOLL_ASSIGN(const topology::Fabric fabric, topology::open_fabric(run.network));
  if (fabric.hosts() >= run.setting.shape.servers()) return {};
  return fail(ErrorCode::kInvalidArgument, "--network {} has {} hosts for {} servers", run.network,
              fabric.hosts(), run.setting.shape.servers());
}

Status check_sizes(const BenchRequest& request) {
  for (const int64_t size : request.sizes) {
    if (size > kMaxBlockBytes) {
      return fail(ErrorCode::kInvalidArgument, "size {} is over the limit of {} bytes a pair", size,
                  format_size(kMaxBlockBytes));
    }
    if (request.collective == Collective::kReduce && size % 8 != 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "size {}: a reduction of doubles takes multiples of 8 bytes", size);
    }
  }
  return {};
}

/// What is measured between them.
Status understand_calls(const Arguments& arguments, const Shape& shape, BenchRequest& request) {
  IBCOLL_ASSIGN(request.collective, parse_collective(arguments.collective));
  IBCOLL_ASSIGN(request.contenders,
                select_contenders(request.collective, arguments.algorithms, arguments.pacing));
  IBCOLL_ASSIGN(request.sizes, parse_sizes(arguments.sizes));
  IBCOLL_TRY(check_sizes(request));
  if (request.collective == Collective::kBarrier) request.sizes = {0};
  if (arguments.root < 0 || arguments.root >= shape.ranks()) {
    return fail(ErrorCode::kInvalidArgument, "--root {}: must be 0 to {}", arguments.root,
                shape.ranks() - 1);
  }
  request.root = has_root(request.collective) ? static_cast<Rank>(arguments.root) : 0;
  request.ordered = arguments.ordered;
  IBCOLL_ASSIGN(request.batch_ns, parse_duration(arguments.batch));
  if (request.batch_ns > 60'000'000'000)
    return fail(ErrorCode::kInvalidArgument, "--batch {} is over the limit of 60s",
                arguments.batch);
  request.iterations = arguments.iterations;
  request.warmup = arguments.warmup;
  request.check = arguments.check;
  request.user_memory = arguments.user_memory;
  request.record = !arguments.timeline.empty();
  if (!request.record) return {};
  if (request.contenders.size() != 1 || request.sizes.size() != 1)
    return fail(ErrorCode::kInvalidArgument,
                "--timeline records one algorithm at one size, not {} at {}",
                request.contenders.size(), request.sizes.size());
  if (shape.ranks() > kMaxRecordedRanks)
    return fail(ErrorCode::kInvalidArgument, "--timeline records up to {} ranks, not {}",
                kMaxRecordedRanks, shape.ranks());
  return {};
}

/// `launched`: how many ranks a launcher has started; 0: none, start them here.
Result<BenchRun> understand(const Arguments& typed, int launched) {
  BenchRun run;
  IBCOLL_ASSIGN(const Arguments arguments, launched > 0 ? typed : with_environment(typed));
  IBCOLL_TRY(understand_ranks(arguments, launched, run));
  IBCOLL_TRY(understand_calls(arguments, run.setting.shape, run.request));
  run.setting.collective = run.request.collective;
  run.setting.user_memory = arguments.user_memory;
  run.setting.bound = !arguments.no_bind;
  run.plot = arguments.plot;
  run.timeline = arguments.timeline;
  if (launched == 0) IBCOLL_TRY(check_memory(run, run.setting.shape.ranks()));
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
  Display(const BenchRun& run, JsonLines& json) : run_(run), json_(json) {}

  void begin() {
    if (json_.to_stdout()) return;
    print("{}{}", describe_run(run_.setting, run_.request), table_header(run_.setting));
    (void)flush_output();  // told at the end
  }
  void progress(const std::string& what) { line_.show(what + " ..."); }
  void row(const BenchRow& row) {
    line_.clear();
    json_.write(to_json(run_.setting, row));
    // Not a Table: each row is shown as soon as it is measured.
    if (!json_.to_stdout()) print("{}", table_row(run_.setting, row));
    (void)flush_output();
    rows_.push_back(row);
  }
  Status finish() {
    if (!run_.plot.empty()) IBCOLL_TRY(bandwidth_plot(run_.setting, rows_).write(run_.plot));
    IBCOLL_TRY(json_.close());
    return flush_output();
  }

 private:
  const BenchRun& run_;
  JsonLines& json_;
  tools::ProgressLine line_;
  std::vector<BenchRow> rows_;
};

Status run_rank(Bootstrap& bootstrap, BenchRun& run, JsonLines& json) {
  IBCOLL_ASSIGN(ContextOptions options, ContextOptions::from_environment(bootstrap.size()));
  if (run.shaped) options.shape = run.setting.shape;
  if (!run.transport.empty()) options.transport = run.transport;
  if (!run.network.empty()) options.fabric.fabric = run.network;
  if (options.deadline_ns == 0) options.deadline_ns = kDeadlineNs;
  IBCOLL_ASSIGN(const std::unique_ptr<Context> context, Context::create(bootstrap, options));
  run.setting.shape = context->shape();
  if (run.setting.launched) IBCOLL_TRY(check_memory(run, context->ranks_on_machine()));
  IBCOLL_TRY(check_transport(run.transport, run.setting.shape));
  run.setting.transport = context->network() != nullptr ? context->network()->name() : "none";
  run.setting.network = context->fabric_order().describe();
  run.setting.transport_reason = context->network_reason();
  std::optional<Display> display;
  if (bootstrap.rank() == 0) display.emplace(run, json);
  if (display) display->begin();
  IBCOLL_TRY(run_bench(
      bootstrap, *context, run.request, [&](const BenchRow& row) { display->row(row); },
      [&](const std::string& what) { display->progress(what); },
      [&](const Recording& recording) { return write_file(run.timeline, to_text(recording)); }));
  if (display) IBCOLL_TRY(display->finish());
  return context->close();
}

/// One rank; the result is its exit status.
int run_and_report(Bootstrap& bootstrap, BenchRun& run, JsonLines& json) {
  const Status done = run_rank(bootstrap, run, json);
  if (done) return 0;
  bootstrap.abort({bootstrap.rank(), done.error().code, done.error().message});
  return tools::exit_status(done.error());
}

/// Starts the ranks here.
Result<int> run_forked(const Arguments& arguments) {
  IBCOLL_ASSIGN(BenchRun run, understand(arguments, 0));
  IBCOLL_TRY(check_writable(run.plot));
  IBCOLL_TRY(check_writable(run.timeline));
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(arguments.json));
  LaunchOptions launch;
  launch.ranks = run.setting.shape.ranks();
  launch.bind = run.setting.bound;
  launch.on_failure = [](const Failure& failure) { tools::complain(failure.what); };
  return launch_processes(
      launch, [&](Bootstrap& bootstrap) { return run_and_report(bootstrap, run, json); });
}

/// Binds this rank to a core where the launcher has left that to us: none of the machine's ranks is
/// bound. Collective.
Status bind_where_free(Bootstrap& bootstrap) {
  IBCOLL_ASSIGN(const std::vector<ProcessPlace> places, exchange_places(bootstrap));
  const auto me = static_cast<size_t>(bootstrap.rank());
  int ranks = 0, mine = 0;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    if (!(places[rank].machine == places[me].machine)) continue;
    if (!CPU_EQUAL(&places[rank].processors, &places[me].processors)) return {};
    if (rank < me) ++mine;
    ++ranks;
  }
  const auto& cores = usable_core_sets();
  if (!cores || static_cast<int>(cores->size()) < std::min(ranks, 2)) return {};
  const std::vector<CpuSet> plan = plan_binding(ranks, *cores);
  return plan.empty() ? Status{} : bind_thread(plan[static_cast<size_t>(mine)]);
}

/// Is one of the ranks that a launcher has started. All of them get the same arguments, so that one
/// complains for all.
int run_launched(Bootstrap& bootstrap, const Arguments& arguments) {
  const bool first = bootstrap.rank() == 0;
  Result<BenchRun> run = understand(arguments, bootstrap.size());
  Result<JsonLines> json = JsonLines::open("");
  if (first && run) {
    Status writable = check_writable(run->plot);
    if (writable) writable = check_writable(run->timeline);
    if (!writable)
      run = tl::unexpected<Error>(writable.error());
    else
      json = JsonLines::open(arguments.json);
  }
  const auto refused = [&]() -> std::optional<Error> {
    if (!run) return run.error();
    if (!json) return json.error();
    return std::nullopt;
  }();
  if (refused) {
    if (first) tools::complain(refused->message);
    bootstrap.abort({bootstrap.rank(), refused->code, refused->message});
    return tools::exit_status(*refused);
  }
  if (run->setting.bound) {
    if (const Status bound = bind_where_free(bootstrap); !bound)
      log().warn("runs unbound: {}", bound.error().message);
  }
  const int status = run_and_report(bootstrap, *run, *json);
  const auto failure = bootstrap.failure();
  const Rank speaker = failure && failure->culprit == 0 && bootstrap.size() > 1 ? 1 : 0;
  if (failure && bootstrap.rank() == speaker) tools::complain(failure->what);
  return status;
}

Result<int> run_all(const Arguments& arguments) {
  if (started_by_launcher()) {
    IBCOLL_ASSIGN(const std::unique_ptr<Bootstrap> bootstrap, join_job());
    // A launcher's single process may be a shell, from which jobs of our own are started.
    if (bootstrap->size() > 1) return run_launched(*bootstrap, arguments);
  }
  return run_forked(arguments);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times all-to-all and other collectives between processes that it starts on this "
      "machine, or that mpirun, mpiexec or srun have started");
  Arguments a;
  app.add_option("--ranks", a.ranks,
                 "Processes to start (default 2; under mpirun and the like: theirs)");
  app.add_option("--servers", a.servers,
                 "Spread them over so many emulated servers (default: IBCOLL_SERVERS, or 1)");
  app.add_option("--layout", a.layout, "Servers one by one: 3,1,2 or 24x8 (24 servers of 8 ranks)");
  app.add_option("--placement", a.placement,
                 "How ranks are dealt to servers: block (default) or cyclic");
  app.add_option("--collective", a.collective, "One of " + collective_names())
      ->capture_default_str();
  app.add_option("--root", a.root, "The rank that gathers, scatters, broadcasts or gets the sum")
      ->capture_default_str();
  app.add_flag("--ordered", a.ordered, "Reduce (a sum of doubles) in the order of ranks");
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
  app.add_option("--transport", a.transport,
                 "Between servers: shm (none), loopback, verbs, or auto; default: IBCOLL_TRANSPORT")
      ->check(CLI::IsMember({"auto", "shm", "loopback", "verbs"}));
  app.add_option(
      "--network", a.network,
      "The network between servers, as ib_sim takes it: servers are numbered as it suits "
      "best, contention_free plans for it (default: IBCOLL_FABRIC, docs/fabrics.md)");
  tools::add_json_option(app, a.json);
  app.add_option("--plot", a.plot, "Draw bandwidth over size into this SVG file");
  app.add_option("--timeline", a.timeline,
                 "Record who sends what when in one more call (for ib_sched draw --recorded)");
  app.footer(
      "Examples:\n"
      "  ib_a2a_bench --ranks 8 --servers 4 --algorithm all --sizes 64-1M:4 --check\n"
      "  ib_a2a_bench --layout 3,1,2 --algorithm two_level_ring --pacing free,gate,gate_token\n"
      "  ib_a2a_bench --collective gather --root 3 --layout 6x1 --algorithm all --check\n"
      "  ib_a2a_bench --ranks 4 --user-memory --json - | jq .median_us\n"
      "  ib_a2a_bench --servers 4 --ranks 8 --transport verbs\n"
      "  ib_a2a_bench --layout 3,1,2 --algorithm ring --sizes 64K --timeline ring.jsonl\n"
      "  ib_a2a_bench --layout 16x1 --network fat-tree:4,2\n"
      "  mpirun -n 4 ib_a2a_bench --check            (mpiexec, srun: docs/launchers.md)\n"
      "What the columns mean: docs/benchmarking.md.");
  return tools::run_tool_to_status(app, argc, argv, [&] { return run_all(a); });
}
