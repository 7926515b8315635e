/// start_bench: how long a job takes to start and to end, by phases, and what the start costs: open
/// files of a rank, and bytes that rank 0 sends to other machines.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/json_lines.h"
#include "engine/base/table.h"
#include "engine/base/unique_fd.h"
#include "engine/base/units.h"
#include "engine/bootstrap/descriptors.h"
#include "engine/bootstrap/join.h"
#include "engine/bootstrap/launch.h"
#include "engine/core/context.h"
#include "perf/compare/mpi_contenders.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;

/// Joining the job comes before what StartPhase counts.
constexpr size_t kPhases = 1 + kStartPhases;
constexpr const char* kPhaseNames[kPhases] = {"meet",    "places", "memory",
                                              "network", "world",  "barrier"};

/// One rank's, or the most of any rank. A single job of the benchmark has nothing but these.
struct Figures {
  int64_t phase_ns[kPhases] = {};
  int64_t started_ns = 0;  ///< when the last phase was over, by the clock of the machine
  int64_t closing_ns = 0;  ///< when the rank began to leave
  uint64_t files_open = 0;
  uint64_t root_bytes = 0;
  int32_t ranks = 0, servers = 0;

  void take_most(const Figures& other) {
    for (size_t i = 0; i < kPhases; ++i) phase_ns[i] = std::max(phase_ns[i], other.phase_ns[i]);
    started_ns = std::max(started_ns, other.started_ns);
    closing_ns = std::max(closing_ns, other.closing_ns);
    files_open = std::max(files_open, other.files_open);
    root_bytes = std::max(root_bytes, other.root_bytes);
    ranks = std::max(ranks, other.ranks);
    servers = std::max(servers, other.servers);
  }
};

/// How a job is started.
struct JobSettings {
  int servers = 1;    ///< emulated ones
  bool bare = false;  ///< ranks join and meet in a barrier, no more
};

Result<ContextOptions> context_options(int ranks, int servers) {
  IBCOLL_ASSIGN(ContextOptions options, ContextOptions::from_environment(ranks));
  if (servers > 1) {
    IBCOLL_ASSIGN(Shape shape, Shape::from_layout(std::vector<int>(servers, ranks / servers),
                                                  Placement::kBlock));
    options.shape = std::move(shape);
  }
  return options;
}

/// What one rank does. `begin_ns`: when joining began. Gives the most of all ranks.
Result<Figures> run_rank(Bootstrap& bootstrap, const JobSettings& settings, int64_t begin_ns) {
  Figures mine;
  mine.ranks = bootstrap.size();
  mine.servers = settings.servers;
  mine.phase_ns[0] = now_ns() - begin_ns;
  std::unique_ptr<Context> context;
  if (settings.bare) {
    IBCOLL_TRY(bootstrap.barrier());
  } else {
    IBCOLL_ASSIGN(const ContextOptions options,
                  context_options(bootstrap.size(), settings.servers));
    IBCOLL_ASSIGN(context, Context::create(bootstrap, options));
    const StartClock& clock = context->job().start_clock();
    for (size_t i = 0; i < kStartPhases; ++i)
      mine.phase_ns[1 + i] = clock.ns(static_cast<StartPhase>(i));
    mine.servers = context->shape().servers();
  }
  mine.started_ns = now_ns();
  mine.files_open = open_files();
  if (bootstrap.rank() == 0) mine.root_bytes = bootstrap.sent_bytes();
  IBCOLL_TRY(bootstrap.barrier());
  mine.closing_ns = now_ns();
  std::vector<Figures> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  for (const Figures& one : all) mine.take_most(one);
  if (context) IBCOLL_TRY(context->close());
  return mine;
}

nlohmann::ordered_json phases_json(const Figures& figures) {
  nlohmann::ordered_json phases;
  for (size_t i = 0; i < kPhases; ++i)
    phases[kPhaseNames[i]] = static_cast<double>(figures.phase_ns[i]) / 1e3;
  return phases;
}

/// Figures as text that a launcher passes on.
constexpr const char* kMark = "start_bench figures ";
std::string to_line(const Figures& figures) {
  std::string text = kMark;
  for (size_t i = 0; i < sizeof figures; ++i)
    text += fmt::format("{:02x}", reinterpret_cast<const unsigned char*>(&figures)[i]);
  return text + "\n";
}

Result<Figures> from_output(const std::string& output) {
  Figures figures;
  const size_t at = output.find(kMark);
  const size_t begin = at == std::string::npos ? output.size() : at + std::strlen(kMark);
  if (output.size() < begin + 2 * sizeof figures)
    return fail(ErrorCode::kPeerFailed, "the job has given no figures: {}",
                output.empty() ? "it has said nothing" : output.substr(0, 500));
  for (size_t i = 0; i < sizeof figures; ++i)
    reinterpret_cast<unsigned char*>(&figures)[i] =
        static_cast<unsigned char>(std::stoi(output.substr(begin + 2 * i, 2), nullptr, 16));
  return figures;
}

/// What a job took, seen from outside.
struct Outcome {
  Figures figures;
  int64_t start_ns = 0;  ///< from before the launch until the last rank had started
  int64_t end_ns = 0;    ///< from when the last rank began to leave until all processes were gone
};

/// Runs `launch`, which gives what rank 0 has to say.
Result<Outcome> timed(const std::function<Result<std::string>(int64_t begin_ns)>& launch) {
  const int64_t begin_ns = now_ns();
  IBCOLL_ASSIGN(const std::string output, launch(begin_ns));
  const int64_t gone_ns = now_ns();
  Outcome outcome;
  IBCOLL_ASSIGN(outcome.figures, from_output(output));
  outcome.start_ns = outcome.figures.started_ns - begin_ns;
  outcome.end_ns = gone_ns - outcome.figures.closing_ns;
  return outcome;
}

std::string all_of(std::FILE* stream) {
  std::string text;
  char part[4096];
  for (size_t got = 0; (got = std::fread(part, 1, sizeof part, stream)) > 0;)
    text.append(part, got);
  return text;
}

Result<std::string> launch_by_fork(int ranks, const JobSettings& settings, int64_t begin_ns) {
  int channel[2];
  if (pipe(channel) != 0) return fail_errno("can't make a pipe");
  const UniqueFd reading(channel[0]);
  UniqueFd writing(channel[1]);
  LaunchOptions launch;
  launch.ranks = ranks;
  IBCOLL_ASSIGN(const int status, launch_processes(launch, [&](Bootstrap& bootstrap) {
                  const Result<Figures> figures = run_rank(bootstrap, settings, begin_ns);
                  if (!figures) {
                    tools::complain(figures.error().message);
                    return 1;
                  }
                  if (bootstrap.rank() != 0) return 0;
                  const std::string line = to_line(*figures);
                  return write(writing.get(), line.data(), line.size()) ==
                                 static_cast<ssize_t>(line.size())
                             ? 0
                             : 1;
                }));
  writing.reset();
  if (status != 0) return fail(ErrorCode::kPeerFailed, "a job of {} ranks failed", ranks);
  std::string line(to_line({}).size(), '\0');
  if (read(reading.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return fail(ErrorCode::kPeerFailed, "rank 0 has given no figures");
  return line;
}

/// By an MPI's launcher, which starts this program once more for each rank.
Result<std::string> launch_by_mpi(const std::string& mpi, int ranks, const JobSettings& settings,
                                  int64_t begin_ns) {
  std::string command;
  for (const std::string& word : compare::local_launch(mpi, ranks)) command += word + " ";
  command +=
      fmt::format("'{}' --begin {} --servers {}{} </dev/null", compare::path_beside("start_bench"),
                  begin_ns, settings.servers, settings.bare ? " --bare" : "");
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return fail_errno("can't start " + command);
  std::string text = all_of(output);
  if (pclose(output) != 0)
    return fail(ErrorCode::kPeerFailed, "{} failed: {}", command, text.substr(0, 500));
  return text;
}

struct Options {
  std::vector<int> ranks;
  std::string launcher = "fork", json;
  int servers = 1, runs = 3;
};

/// The run that started soonest.
Result<Outcome> best_of(const Options& options, int ranks, const JobSettings& settings) {
  const char* const mpi = options.launcher == "mpirun" ? "openmpi" : "mpich";
  Outcome best;
  for (int run = 0; run < options.runs; ++run) {
    IBCOLL_ASSIGN(const Outcome one, timed([&](int64_t begin_ns) {
                    return options.launcher == "fork"
                               ? launch_by_fork(ranks, settings, begin_ns)
                               : launch_by_mpi(mpi, ranks, settings, begin_ns);
                  }));
    if (run == 0 || one.start_ns < best.start_ns) best = one;
  }
  return best;
}

std::string milliseconds(int64_t ns) {
  return fmt::format("{:.1f}", static_cast<double>(ns) / 1e6);
}

Status measure(const Options& options) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(options.json));
  std::vector<std::string> head = {"ranks", "servers", "bare ms", "start ms"};
  head.insert(head.end(), std::begin(kPhaseNames), std::end(kPhaseNames));
  head.insert(head.end(), {"end ms", "files", "sent by rank 0"});
  Table table(head);
  for (const int ranks : options.ranks) {
    IBCOLL_ASSIGN(const Outcome bare,
                  best_of(options, ranks, {.servers = options.servers, .bare = true}));
    IBCOLL_ASSIGN(const Outcome job,
                  best_of(options, ranks, {.servers = options.servers, .bare = false}));
    const Figures& figures = job.figures;
    std::vector<std::string> row = {std::to_string(ranks), std::to_string(figures.servers),
                                    milliseconds(bare.start_ns), milliseconds(job.start_ns)};
    for (const int64_t ns : figures.phase_ns) row.push_back(milliseconds(ns));
    row.insert(row.end(), {milliseconds(job.end_ns), std::to_string(figures.files_open),
                           std::to_string(figures.root_bytes)});
    table.add_row(row);
    json.write({{"ranks", ranks},
                {"servers", figures.servers},
                {"launcher", options.launcher},
                {"runs", options.runs},
                {"bare_us", static_cast<double>(bare.start_ns) / 1e3},
                {"start_us", static_cast<double>(job.start_ns) / 1e3},
                {"phases_us", phases_json(figures)},
                {"end_us", static_cast<double>(job.end_ns) / 1e3},
                {"files_open", figures.files_open},
                {"root_bytes", figures.root_bytes}});
  }
  if (!json.to_stdout()) fmt::print("{}", table.text());
  return json.close();
}

/// A rank of a job that a launcher has started: of the benchmark's (`begin_ns` is not 0), or a
/// user's own, whose rank 0 says what there is to say without a view from outside.
Status take_part(const JobSettings& settings, int64_t begin_ns, const std::string& path) {
  const int64_t joining_ns = now_ns();
  IBCOLL_ASSIGN(const std::unique_ptr<Bootstrap> bootstrap, join_job());
  IBCOLL_ASSIGN(const Figures figures, run_rank(*bootstrap, settings, joining_ns));
  if (bootstrap->rank() != 0) return {};
  if (begin_ns != 0) {
    fmt::print("{}", to_line(figures));
    return {};
  }
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(path.empty() ? "-" : path));
  json.write({{"ranks", figures.ranks},
              {"servers", figures.servers},
              {"launcher", "job"},
              {"phases_us", phases_json(figures)},
              {"files_open", figures.files_open},
              {"root_bytes", figures.root_bytes}});
  return json.close();
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app("How long jobs take to start and to end, by phases");
  Options options;
  JobSettings settings;
  std::string ranks = "2,16,64";
  int64_t begin_ns = 0;
  app.option("--ranks", ranks, "numbers of ranks, one after the other").with_default();
  app.option("--servers", options.servers, "emulated servers of equal size")
      .with_default()
      .between(1, 1'000);
  app.option("--launcher", options.launcher,
             "what starts them: fork, mpirun (Open MPI's), mpiexec (MPICH's)")
      .with_default()
      .one_of({"fork", "mpirun", "mpiexec"});
  app.option("--runs", options.runs, "of each, whose quickest counts")
      .with_default()
      .between(1, 1'000);
  app.option("--begin", begin_ns, "").group("");
  app.flag("--bare", settings.bare, "").group("");
  tools::add_json_option(app, options.json, "one object for each number of ranks");
  app.footer(
      "A process that a launcher has started is a rank of that job, whose phases rank 0 writes.\n"
      "Examples:\n"
      "  start_bench --ranks 64,1024\n"
      "  start_bench --ranks 64 --servers 8 --launcher mpiexec --json -\n"
      "  mpirun -n 4 start_bench");
  return tools::run_tool(app, argc, argv, [&]() -> Status {
    settings.servers = options.servers;
    if (started_by_launcher()) return take_part(settings, begin_ns, options.json);
    for (const std::string_view part : split(ranks, ',')) {
      IBCOLL_ASSIGN(const int64_t count,
                    parse_integer(part, 1, kMaxLaunchRanks, "the number of ranks"));
      if (count % options.servers != 0)
        return fail(ErrorCode::kInvalidArgument, "{} ranks can't be spread evenly over {} servers",
                    count, options.servers);
      options.ranks.push_back(static_cast<int>(count));
    }
    return measure(options);
  });
}
