/// ib_mcast_bench: multicasts to sets of ranks that are drawn at random, timed and checked: between
/// processes that it starts on this machine, or that mpirun, mpiexec or srun have started.

#include <cstdlib>
#include <optional>

#include "engine/base/config.h"
#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/bootstrap/join.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "engine/schedule/layout.h"
#include "studies/measure/contenders.h"
#include "tools/frame/frame.h"
#include "tools/frame/job.h"
#include "tools/frame/progress.h"
#include "tools/ib_mcast_bench/bench.h"
#include "tools/ib_mcast_bench/mcast_report.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::tools;

constexpr int64_t kMaxMessageBytes = int64_t{1} << 40;

/// The command line as it was typed.
struct Arguments {
  std::optional<int64_t> ranks, servers;
  std::string layout, placement, transport, members, algorithms = "auto";
  std::string sizes = "0,8,1K,80K,1M", json, plot;
  uint64_t seed = 1;
  int masters = 1, sets = 100, warmup = 20, window = 1, pieces = 0;
  std::optional<int> slow;
  bool check = false, repeat = false, no_bind = false;
};

/// What it means.
struct BenchRun {
  McastSetting setting;
  McastSettings settings;
  bool bind = true;
  std::string plot;
};

/// Where the command line names no servers, those of the environment count, as in any other job.
Result<Shape> understand_shape(const Arguments& arguments, int launched) {
  std::string layout = arguments.layout, placement = arguments.placement;
  std::optional<int64_t> ranks = arguments.ranks, servers = arguments.servers;
  if (!servers && layout.empty()) {
    IBCOLL_ASSIGN(layout, config_string("IBCOLL_LAYOUT"));
    IBCOLL_ASSIGN(const int64_t configured, config_integer("IBCOLL_SERVERS"));
    if (configured != 0 && layout.empty()) servers = configured;
  }
  if (placement.empty()) {
    IBCOLL_ASSIGN(placement, config_choice("IBCOLL_PLACEMENT"));
  }
  IBCOLL_ASSIGN(const Placement placed, parse_placement(placement));
  if (launched > 0) {
    if (ranks && *ranks != launched)
      return fail(ErrorCode::kInvalidArgument, "--ranks {}, but the launcher has started {}",
                  *ranks, launched);
    ranks = launched;
  } else if (!ranks && layout.empty()) {
    ranks = std::max<int64_t>(4, servers.value_or(4));
  }
  IBCOLL_ASSIGN(Shape shape, shape_from_options(layout, ranks, servers, placed));
  if (shape.ranks() > kMaxLaunchRanks)
    return fail(ErrorCode::kInvalidArgument, "{} ranks are more than the limit of {} processes",
                shape.ranks(), kMaxLaunchRanks);
  if (shape.ranks() < 2)
    return fail(ErrorCode::kInvalidArgument, "1 rank: a multicast takes a master and a member");
  if (shape.servers() == 1 && !arguments.transport.empty() && arguments.transport != "auto" &&
      arguments.transport != "shm")
    return fail(ErrorCode::kInvalidArgument,
                "--transport {} joins servers, but all ranks are on one: say --servers or --layout",
                arguments.transport);
  return shape;
}

/// "3" or "2-6"; empty: any number of the others.
Status understand_members(const std::string& text, measure::SetDraw& draw) {
  const int others = draw.ranks - 1;
  draw.least = 1;
  draw.most = others;
  if (text.empty()) return {};
  const std::vector<std::string_view> ends = split(text, '-');
  if (ends.empty() || ends.size() > 2)
    return fail(ErrorCode::kInvalidArgument, "--members {}: must be a number or FEWEST-MOST", text);
  IBCOLL_ASSIGN(const int64_t least, parse_integer(ends.front(), 1, others, "--members"));
  IBCOLL_ASSIGN(const int64_t most, parse_integer(ends.back(), 1, others, "--members"));
  if (least > most)
    return fail(ErrorCode::kInvalidArgument, "--members {}: {} is more than {}", text, least, most);
  draw.least = static_cast<int>(least);
  draw.most = static_cast<int>(most);
  return {};
}

Status understand_request(const Arguments& arguments, int ranks, McastSettings& settings) {
  settings.draw.seed = arguments.seed;
  settings.draw.ranks = ranks;
  IBCOLL_TRY(understand_members(arguments.members, settings.draw));
  if (arguments.masters > ranks)
    return fail(ErrorCode::kInvalidArgument, "--masters {}: there are {} ranks", arguments.masters,
                ranks);
  settings.masters = arguments.masters;
  settings.sets = arguments.sets;
  settings.warmup = arguments.warmup;
  settings.window = arguments.window;
  settings.repeat = arguments.repeat;
  settings.pieces = static_cast<unsigned>(arguments.pieces);
  settings.check = arguments.check;
  IBCOLL_ASSIGN(const std::string costs, config_string("IBCOLL_LOGP"));
  settings.bound = !costs.empty();
  IBCOLL_ASSIGN(const std::vector<measure::Contender> contenders,
                measure::select_contenders(Collective::kBcast, arguments.algorithms, ""));
  for (const measure::Contender& one : contenders) settings.algorithms.push_back(one.algorithm);
  IBCOLL_ASSIGN(settings.sizes, parse_sizes(arguments.sizes));
  for (const int64_t size : settings.sizes) {
    if (size > kMaxMessageBytes)
      return fail(ErrorCode::kInvalidArgument, "size {} is over the limit of {} bytes", size,
                  format_size(kMaxMessageBytes));
  }
  settings.slow = arguments.slow;
  if (!settings.slow) return {};
  if (*settings.slow < settings.masters || *settings.slow >= ranks)
    return fail(ErrorCode::kInvalidArgument,
                "--slow {}: must be a rank that is no master, {} to {}", *settings.slow,
                settings.masters, ranks - 1);
  settings.draw.left_out = *settings.slow;
  if (settings.masters > 1 && settings.draw.least > ranks - 2)
    return fail(
        ErrorCode::kInvalidArgument,
        "--members {}: sets of the second master leave out rank {}, which is slow, and have "
        "up to {}",
        arguments.members, *settings.slow, ranks - 2);
  return {};
}

Status check_memory(const McastSettings& settings) {
  const auto needed = memory_needed(settings);
  const auto available = static_cast<int64_t>(available_memory());
  if (needed <= available) return {};
  return fail(ErrorCode::kNoMemory,
              "not enough memory: messages of {} bytes to {} ranks need about {:.1f} GB, {:.1f} GB "
              "are available",
              format_size(*std::max_element(settings.sizes.begin(), settings.sizes.end())),
              settings.draw.most, static_cast<double>(needed) / 1e9,
              static_cast<double>(available) / 1e9);
}

/// `launched`: how many ranks a launcher has started; 0: none, start them here.
Result<BenchRun> understand(const Arguments& arguments, int launched) {
  BenchRun run;
  IBCOLL_ASSIGN(run.setting.shape, understand_shape(arguments, launched));
  IBCOLL_TRY(understand_request(arguments, run.setting.shape.ranks(), run.settings));
  run.bind = !arguments.no_bind;
  run.plot = arguments.plot;
  if (launched > 0 && run.settings.slow)
    return fail(ErrorCode::kInvalidArgument,
                "--slow stops a process of this machine: not of ranks that a launcher has started");
  IBCOLL_TRY(check_memory(run.settings));
  return run;
}

/// The library reads these.
void set_environment(const Arguments& arguments) {
  if (!arguments.transport.empty()) setenv("IBCOLL_TRANSPORT", arguments.transport.c_str(), 1);
  if (!arguments.layout.empty()) setenv("IBCOLL_LAYOUT", arguments.layout.c_str(), 1);
  if (arguments.servers && arguments.layout.empty()) {
    unsetenv("IBCOLL_LAYOUT");
    setenv("IBCOLL_SERVERS", std::to_string(*arguments.servers).c_str(), 1);
  }
  if (!arguments.placement.empty()) setenv("IBCOLL_PLACEMENT", arguments.placement.c_str(), 1);
  setenv("IBCOLL_DEADLINE", "60s", 0);
}

/// One rank, which says what is wrong to all others.
Status run_rank(ibcoll_context* context, BenchRun& run, JsonLines& json) {
  ProgressLine line;
  std::vector<McastRow> rows;
  run.setting.transport = ibcoll_transport(context);
  McastCallbacks callbacks;
  callbacks.on_setup = [&](const McastSetup& setup) {
    run.setting.setup = setup;
    line.clear();
    if (json.to_stdout()) return;
    print("{}{}", describe_run(run.setting, run.settings), table_header(run.settings));
    (void)flush_output();  // told at the end
  };
  callbacks.on_row = [&](const McastRow& row) {
    line.clear();
    json.write(to_json(run.setting, run.settings, row));
    if (!json.to_stdout()) print("{}", table_row(run.settings, row));
    (void)flush_output();
    rows.push_back(row);
  };
  callbacks.on_progress = [&](const std::string& what) { line.show(what + " ..."); };
  IBCOLL_TRY(run_mcast_bench(context, run.settings, callbacks));
  if (ibcoll_rank(context) != 0) return {};
  if (!run.plot.empty()) IBCOLL_TRY(latency_plot(run.setting, run.settings, rows).write(run.plot));
  IBCOLL_TRY(json.close());
  return flush_output();
}

struct RankArguments {
  BenchRun& run;
  JsonLines& json;
};

/// The exit status of a rank.
int rank_main(ibcoll_context* context, void* argument) {
  const auto& given = *static_cast<RankArguments*>(argument);
  const Status done = run_rank(context, given.run, given.json);
  if (done) return 0;
  ibcoll_abort(context, done.error().message.c_str());
  return exit_status(done.error());
}

/// Starts the ranks here.
Result<int> run_forked(const Arguments& arguments) {
  IBCOLL_ASSIGN(BenchRun run, understand(arguments, 0));
  IBCOLL_TRY(check_writable(run.plot));
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(arguments.json));
  set_environment(arguments);
  ibcoll_launch_options launch = IBCOLL_LAUNCH_OPTIONS_INIT;
  launch.ranks = run.setting.shape.ranks();
  launch.bind = run.bind ? 1 : 0;
  RankArguments given{run, json};
  int status = 0;
  if (ibcoll_launch(&launch, rank_main, &given, &status) == IBCOLL_OK) return status;
  return fail(ErrorCode::kInvalidArgument, "{}", ibcoll_last_error());
}

/// Is one of the ranks that a launcher has started; they get the same arguments, so that one
/// complains for all.
int run_launched(ibcoll_context* context, const Arguments& arguments) {
  const bool first = ibcoll_rank(context) == 0;
  Result<BenchRun> run = understand(arguments, ibcoll_size(context));
  Result<JsonLines> json = JsonLines::open("");
  if (first && run) {
    const Status writable = check_writable(run->plot);
    if (!writable) {
      run = tl::unexpected<Error>(writable.error());
    } else {
      json = JsonLines::open(arguments.json);
    }
  }
  if (!run || !json) {
    const Error error = run ? json.error() : run.error();
    // A launcher ends the others with the first that ends, so rank 0 goes first.
    if (first)
      complain(error.message);
    else
      (void)ibcoll_barrier(ibcoll_world(context), nullptr);
    ibcoll_abort(context, error.message.c_str());
    return exit_status(error);
  }
  RankArguments given{*run, *json};
  const int status = rank_main(context, &given);
  if (status != 0 && first) complain(ibcoll_last_error());
  return status;
}

Result<int> run_all(const Arguments& arguments) {
  // A launcher's single process may be a shell, from which jobs of our own are started.
  if (!started_by_launcher()) return run_forked(arguments);
  set_environment(arguments);
  ibcoll_context* context = nullptr;
  if (ibcoll_init(&context) != IBCOLL_OK)
    return fail(ErrorCode::kPeerFailed, "{}", ibcoll_last_error());
  if (ibcoll_size(context) == 1) {
    ibcoll_finalize(context);
    return run_forked(arguments);
  }
  const int status = run_launched(context, arguments);
  if (ibcoll_finalize(context) == IBCOLL_OK || status != 0) return status;
  return fail(ErrorCode::kPeerFailed, "{}", ibcoll_last_error());
}

void add_options(Command app, Arguments& a) {
  app.option("--ranks", a.ranks,
             "Number of processes to start (default: 4, or one per server if there are more "
             "servers; under mpirun and the like: as many as it has started)");
  app.option("--servers", a.servers,
             "Number of emulated servers that the ranks are spread over (default: IBCOLL_SERVERS, "
             "or one per machine)");
  app.option("--layout", a.layout, "Ranks of each server: 3,1,2 or 24x8 (24 servers of 8 ranks)");
  app.option("--placement", a.placement,
             "How ranks are placed on servers: block or cyclic (default: IBCOLL_PLACEMENT)");
  app.option("--transport", a.transport,
             "Transport between servers; shm: only one server is allowed (default: "
             "IBCOLL_TRANSPORT, docs/environment.md)")
      .one_of(config_choices("IBCOLL_TRANSPORT"));
  app.option("--masters", a.masters,
             "Number of ranks, from rank 0 on, that send, all at the same time")
      .between(1, kMaxLaunchRanks)
      .with_default();
  app.option("--sets", a.sets, "Number of sets that each master sends to, at each size")
      .between(1, 1'000'000)
      .with_default();
  app.option("--members", a.members,
             "Number of members of a set, without its master: 3 or 2-6 (default: 1 to all others)");
  app.option("--seed", a.seed,
             "Seed by which sets are drawn; each size and algorithm has the same sets")
      .with_default();
  app.option("--sizes", a.sizes,
             "Bytes of a message: 0,8,80K or 64-4M (doubling) or 64-4M:4 (times 4)")
      .with_default();
  app.option(
         "--algorithm", a.algorithms,
         "Algorithms of bcast for long messages, separated by commas, or auto (the engine chooses)")
      .with_default();
  app.option("--pieces", a.pieces,
             "Number of pieces that long messages are cut into; 0: the engine chooses")
      .between(0, 1 << 20)
      .with_default();
  app.option("--window", a.window, "Number of multicasts that each master has under way at a time")
      .between(1, 4096)
      .with_default();
  app.option("--warmup", a.warmup,
             "Number of sets that are sent to before those that count, at each size")
      .between(0, 1'000'000)
      .with_default();
  app.flag("--repeat", a.repeat,
           "Send two messages to each set, to see how much more the first one costs");
  app.flag("--check", a.check,
           "Compare every byte that members receive, and the number of members and the member's "
           "own id that come with it");
  app.option("--slow", a.slow,
             "Stop this rank for 3 s at each size, to see whether it delays the others");
  app.flag("--no-bind", a.no_bind, "Leave the choice of cores to the system");
  add_json_option(app, a.json);
  app.option("--plot", a.plot, "Draw the median time over size to this SVG file");
  app.footer(
      "Examples:\n"
      "  ib_mcast_bench --ranks 8 --members 2-7 --sizes 0,8,1K,80K --check\n"
      "  ib_mcast_bench --layout 4x2 --masters 2 --algorithm auto,chain --sizes 80K,8M --sets 20\n"
      "  ib_mcast_bench --ranks 8 --servers 4 --window 8 --sizes 1K --json -\n"
      "  ib_mcast_bench --layout 3,1,2 --repeat --sizes 8-1M:8 --plot repeat.svg\n"
      "  ib_mcast_bench --ranks 6 --slow 5 --sizes 1K\n"
      "What the columns mean: docs/benchmarking.md.");
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "Times multicasts to sets of ranks that are drawn at random, between processes that it "
      "starts on this machine, or that mpirun, mpiexec or srun have started");
  Arguments arguments;
  add_options(app, arguments);
  return run_tool_to_status(app, argc, argv, [&] { return run_all(arguments); });
}
