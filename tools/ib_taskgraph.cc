/// ib_taskgraph: schedules task graphs with packaged messages, checks, draws and runs the
/// schedules.

#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <optional>
#include <sstream>
#include <thread>

#include "engine/base/input.h"
#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/stats.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "studies/task_graph/charts.h"
#include "studies/task_graph/formats.h"
#include "studies/task_graph/gantt.h"
#include "studies/task_graph/generators.h"
#include "studies/task_graph/known_optima.h"
#include "studies/task_graph/options.h"
#include "studies/task_graph/quality.h"
#include "studies/task_graph/run/real_runs.h"
#include "studies/task_graph/schedulers.h"
#include "tools/frame/frame.h"
#include "tools/frame/progress.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::task_graph;

struct Options {
  std::string graph, processors, schedulers = "sppc", logp = "paper", run_logp = "measure";
  std::string json, output, input, optima, plot, charts, method = "gauss-jordan", transport = "shm";
  int size = 128, repeat = 11, tasks = 8, rounds = 1000, results = 0;
  uint64_t seed = 1;
  bool threads = false;
};

constexpr int kPapersProcessors = 16;

/// As many ranks as can run at the same time here, but two at least.
int cores() { return std::clamp<int>(std::thread::hardware_concurrency(), 2, 64); }

/// CPU seconds of this process.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

/// Reports progress on a terminal, at most ten times a second.
SchedulerOptions with_progress(tools::ProgressLine& line) {
  SchedulerOptions options;
  if (!line.visible()) return options;
  options.progress = [&line, last = std::clock()](const char* stage, int64_t done,
                                                  int64_t all) mutable {
    if (std::clock() - last < CLOCKS_PER_SEC / 10) return;
    last = std::clock();
    line.show(fmt::format(
        "{:<24} {:5.1f} %", stage,
        100.0 * static_cast<double>(done) / static_cast<double>(std::max<int64_t>(all, 1))));
  };
  return options;
}

std::string number(double value) { return std::isnan(value) ? "-" : fmt::format("{:.3f}", value); }

Status run_schedule(const Options& o) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(o.json));
  IBCOLL_ASSIGN(const auto processors, parse_processors(o.processors, kPapersProcessors));
  IBCOLL_ASSIGN(const auto chosen, parse_schedulers(o.schedulers));
  if (!o.output.empty() && processors.size() * chosen.size() > 1)
    return fail(ErrorCode::kInvalidArgument,
                "--output takes one scheduler and one number of processors");
  IBCOLL_ASSIGN(const TaskGraph graph, load_graph(o.graph));
  Table table({"scheduler", "processors", "makespan", "speedup", "as replayed", "messages",
               "duplicates", "used", "usage", "overhead", "overlap", "seconds", "checked"});
  std::string first_wrong, first_left_out;
  ScheduleCharts charts;
  for (const int p : processors) {
    IBCOLL_ASSIGN(const LogP logp, parse_logp(o.logp, p));
    for (const Scheduler* scheduler : chosen) {
      const double begin = cpu_seconds();
      tools::ProgressLine line;
      Result<TaskSchedule> made = schedule(*scheduler, graph, logp, p, with_progress(line));
      const double seconds = cpu_seconds() - begin;
      line.clear();
      if (!made && made.error().code == ErrorCode::kUnsupported && chosen.size() > 1) {
        // Of all schedulers, those that can are meant; of some, each of them.
        if (o.schedulers == "all")
          fmt::print(stderr, "{} left out: {}\n", scheduler->name, made.error().message);
        else if (first_left_out.empty())
          first_left_out = made.error().message;
        continue;
      }
      if (!made) return tl::unexpected<Error>(made.error());
      const Status right = check(graph, *made);
      if (!right && first_wrong.empty())
        first_wrong = fmt::format("{}: {}", scheduler->name, right.error().message);
      const Statistics s = statistics(graph, *made);
      TaskSchedule replayed = *made;
      IBCOLL_TRY(replay(graph, replayed));
      const double speedup_replayed = statistics(graph, replayed).speedup;
      table.add_row({std::string(scheduler->name), std::to_string(p), std::to_string(s.makespan),
                     number(s.speedup), number(speedup_replayed), std::to_string(s.messages),
                     std::to_string(s.duplicates), std::to_string(s.used_processors),
                     number(s.usage), std::to_string(s.overhead), std::to_string(s.overlap),
                     number(seconds), right ? "yes" : "NO"});
      charts.add(scheduler->name, p, s, seconds);
      json.write({{"graph", o.graph},
                  {"scheduler", scheduler->name},
                  {"processors", p},
                  {"makespan", s.makespan},
                  {"speedup", s.speedup},
                  {"speedup_replayed", speedup_replayed},
                  {"messages", s.messages},
                  {"packed_results", s.packed_results},
                  {"duplicates", s.duplicates},
                  {"used_processors", s.used_processors},
                  {"usage", s.usage},
                  {"overhead", s.overhead},
                  {"overlap", s.overlap},
                  {"seconds", seconds},
                  {"peak_bytes", peak_bytes()},
                  {"checked", right.has_value()}});
      if (!o.output.empty()) {
        std::ostringstream out;
        write_schedule(graph, *made, out);
        IBCOLL_TRY(write_file(o.output, out.str()));
      }
      if (!o.plot.empty())
        IBCOLL_TRY(
            write_file(o.plot, gantt_svg(graph, *made,
                                         fmt::format("{} on {} processors, {}: speed-up {:.2f}",
                                                     o.graph, p, scheduler->name, s.speedup))));
    }
  }
  if (!json.to_stdout())
    print("{} tasks, {} edges, critical path {}\n{}", graph.size(), graph.edges(),
          critical_path(graph), table.text());
  if (!o.charts.empty()) IBCOLL_TRY(charts.write(o.charts, o.graph));
  IBCOLL_TRY(json.close());
  if (!first_wrong.empty()) return fail(ErrorCode::kInvalidProgram, "{}", first_wrong);
  if (!first_left_out.empty()) return fail(ErrorCode::kUnsupported, "{}", first_left_out);
  return {};
}

Result<TaskSchedule> load_schedule(const TaskGraph& graph, const std::string& file) {
  IBCOLL_ASSIGN(std::string text, read_input(file));
  std::istringstream in(std::move(text));
  return of_input(file, read_schedule(graph, in));
}

Status run_check(const Options& o) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(o.json));
  IBCOLL_ASSIGN(const TaskGraph graph, load_graph(o.graph));
  IBCOLL_ASSIGN(const TaskSchedule schedule, load_schedule(graph, o.input));
  IBCOLL_TRY(check(graph, schedule));
  const Statistics s = statistics(graph, schedule);
  json.write({{"graph", o.graph},
              {"processors", schedule.processors.size()},
              {"makespan", s.makespan},
              {"speedup", s.speedup},
              {"messages", s.messages},
              {"packed_results", s.packed_results},
              {"duplicates", s.duplicates},
              {"used_processors", s.used_processors},
              {"checked", true}});
  if (!json.to_stdout())
    print("right: makespan {}, speed-up {:.3f}, {} messages, {} duplicates\n", s.makespan,
          s.speedup, s.messages, s.duplicates);
  return json.close();
}

Status run_draw(const Options& o) {
  IBCOLL_ASSIGN(const TaskGraph graph, load_graph(o.graph));
  IBCOLL_ASSIGN(const TaskSchedule schedule, load_schedule(graph, o.input));
  IBCOLL_TRY(check(graph, schedule));
  return write_file(o.plot, gantt_svg(graph, schedule, o.graph));
}

Status run_convert(const Options& o) {
  IBCOLL_ASSIGN(const TaskGraph graph, load_graph(o.graph));
  return save_graph(graph, o.output);
}

Status run_quality(const Options& o, bool worst) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(o.json));
  IBCOLL_ASSIGN(const auto processors, parse_processors(o.processors, kPapersProcessors));
  IBCOLL_ASSIGN(const auto chosen, parse_schedulers(o.schedulers));
  if (o.tasks < 2 || o.tasks > 10)
    return fail(ErrorCode::kInvalidArgument, "--tasks {}: must be 2 to 10", o.tasks);
  if (o.rounds < 1)
    return fail(ErrorCode::kInvalidArgument, "--rounds {}: must be at least 1", o.rounds);
  Table table({"scheduler", "processors", "graphs", "optimal", "median", "90 %", "worst"});
  for (const int p : processors) {
    StudyOptions study{.tasks = o.tasks, .processors = p, .seed = o.seed, .rounds = o.rounds};
    IBCOLL_ASSIGN(study.logp, parse_logp(o.logp, p));
    for (const Scheduler* scheduler : chosen) {
      if (worst) {
        IBCOLL_ASSIGN(const WorstCase found, find_worst_case(*scheduler, study));
        json.write({{"scheduler", scheduler->name},
                    {"processors", p},
                    {"makespan", found.makespan},
                    {"optimum", found.optimum},
                    {"ratio", found.ratio()}});
        if (!json.to_stdout())
          print("{} on {} processors: makespan {}, optimum {}, {:.2f} times\n", scheduler->name, p,
                found.makespan, found.optimum, found.ratio());
        if (!o.output.empty()) IBCOLL_TRY(save_graph(found.graph, o.output));
        continue;
      }
      int skipped = 0;
      IBCOLL_ASSIGN(const auto ratios, distances_to_optimum(*scheduler, study, skipped));
      const auto hits = std::count(ratios.begin(), ratios.end(), 1.0);
      table.add_row({std::string(scheduler->name), std::to_string(p), std::to_string(ratios.size()),
                     std::to_string(hits), number(median(ratios)), number(quantile(ratios, 0.9)),
                     number(maximum(ratios))});
      json.write({{"scheduler", scheduler->name},
                  {"processors", p},
                  {"graphs", ratios.size()},
                  {"skipped", skipped},
                  {"optimal", hits},
                  {"median", median(ratios)},
                  {"p90", quantile(ratios, 0.9)},
                  {"worst", maximum(ratios)}});
    }
  }
  if (!worst && !json.to_stdout()) print("{}", table.text());
  return json.close();
}

Status run_optima(const Options& o) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(o.json));
  IBCOLL_ASSIGN(const auto chosen, parse_schedulers(o.schedulers));
  std::vector<KnownOptimum> optima;
  for (const std::string_view file : split(o.optima, ',')) {
    IBCOLL_ASSIGN(std::string text, read_input(std::string(file)));
    std::istringstream in(std::move(text));
    IBCOLL_ASSIGN(const auto more, of_input(std::string(file), read_optima(in)));
    optima.insert(optima.end(), more.begin(), more.end());
  }
  Table table({"scheduler", "graphs", "processors", "cases", "optimal", "best known", "below",
               "mean ratio", "worst", "of", "duplicates", "mean s", "worst s"});
  for (const Scheduler* scheduler : chosen) {
    IBCOLL_ASSIGN(const auto rows, compare_with_optima(*scheduler, o.input, optima));
    for (const OptimaRow& row : rows) {
      table.add_row({std::string(scheduler->name), row.folder, std::to_string(row.processors),
                     std::to_string(row.cases), std::to_string(row.optimal),
                     std::to_string(row.best_known), std::to_string(row.below),
                     fmt::format("{:.4f}", row.mean_ratio), number(row.worst_ratio),
                     row.worst_graph, std::to_string(row.duplicates), number(row.mean_seconds),
                     number(row.worst_seconds)});
      json.write({{"scheduler", scheduler->name},
                  {"graphs", row.folder},
                  {"processors", row.processors},
                  {"cases", row.cases},
                  {"optimal", row.optimal},
                  {"best_known", row.best_known},
                  {"below", row.below},
                  {"mean_ratio", row.mean_ratio},
                  {"worst_ratio", row.worst_ratio},
                  {"worst_graph", row.worst_graph},
                  {"duplicates", row.duplicates},
                  {"mean_seconds", row.mean_seconds},
                  {"worst_seconds", row.worst_seconds}});
    }
  }
  if (!json.to_stdout()) print("{}", table.text());
  return json.close();
}

Status run_run(const Options& o) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(o.json));
  IBCOLL_ASSIGN(const auto processors, parse_processors(o.processors, cores()));
  IBCOLL_ASSIGN(const auto chosen, parse_schedulers(o.schedulers));
  IBCOLL_ASSIGN(const std::string channel, parse_channel(o.transport));
  IBCOLL_ASSIGN(const MatrixProblem::Method method, parse_method(o.method));
  if (o.size < 2 || o.size > 256)
    return fail(ErrorCode::kInvalidArgument, "--size {}: must be 2 to 256", o.size);
  if (o.repeat < 1 || o.repeat > 10'000)
    return fail(ErrorCode::kInvalidArgument, "--repeat {}: must be 1 to 10000", o.repeat);
  Table table({"scheduler", "processors", "os ns", "or ns", "L ns", "task ns", "predicted us",
               "measured us", "measured/predicted", "Sm", "Se", "messages", "error"});
  for (const int p : processors) {
    std::optional<LogP> logp;
    if (o.run_logp != "measure") {
      IBCOLL_ASSIGN(logp, parse_logp(o.run_logp, p));
    }
    for (const Scheduler* scheduler : chosen) {
      const RunSettings settings{.method = method,
                                 .size = o.size,
                                 .processors = p,
                                 .scheduler = scheduler,
                                 .channel = channel,
                                 .threads = o.threads,
                                 .repeat = o.repeat,
                                 .logp = logp,
                                 .seed = o.seed};
      IBCOLL_ASSIGN(const RunResult r, run_matrix_problem(settings));
      const double ratio = r.measured_ns / r.predicted_ns;
      table.add_row({std::string(scheduler->name), std::to_string(p),
                     fmt::format("{:.0f}", r.logp.send_overhead_ns),
                     fmt::format("{:.0f}", r.logp.receive_overhead_ns),
                     fmt::format("{:.0f}", r.logp.latency_ns), fmt::format("{:.2f}", r.task_ns),
                     fmt::format("{:.0f}", r.predicted_ns / 1e3),
                     fmt::format("{:.0f}", r.measured_ns / 1e3), number(ratio),
                     number(r.speedup_model), number(r.speedup_measured),
                     std::to_string(r.messages), fmt::format("{:.1e}", r.worst_error)});
      json.write({{"method", o.method},
                  {"size", o.size},
                  {"transport", o.transport},
                  {"scheduler", scheduler->name},
                  {"processors", p},
                  {"send_overhead_ns", r.logp.send_overhead_ns},
                  {"receive_overhead_ns", r.logp.receive_overhead_ns},
                  {"latency_ns", r.logp.latency_ns},
                  {"task_ns", r.task_ns},
                  {"predicted_ns", r.predicted_ns},
                  {"measured_ns", r.measured_ns},
                  {"serial_ns", r.serial_ns},
                  {"speedup_model", r.speedup_model},
                  {"speedup_measured", r.speedup_measured},
                  {"messages", r.messages},
                  {"worst_error", r.worst_error}});
      if (!(r.worst_error < 1e-9))
        return fail(ErrorCode::kInternal, "the results differ from the plain solver's by {}",
                    r.worst_error);
    }
  }
  if (!json.to_stdout()) print("{}", table.text());
  return json.close();
}

void add_graph(tools::Command command, Options& o) {
  command
      .option("--graph", o.graph,
              "Graph: a .stg, .dot, .gv, .json (also WfFormat), .hdag or .txt (HyperDAG) file, or "
              "one of\n" +
                  generator_help())
      .required();
}

void add_scheduler_names(tools::Command command, Options& o) {
  std::string names;
  for (const Scheduler& scheduler : schedulers())
    names += fmt::format("\n  {:<15}{}", scheduler.name, scheduler.summary);
  command.option(
      "--scheduler", o.schedulers,
      "Schedulers, separated by commas, or 'all' (all except optimal; default: sppc):" + names);
}

void add_schedulers(tools::Command command, Options& o) {
  add_scheduler_names(command, o);
  command.option("--processors", o.processors,
                 fmt::format("Numbers of processors: 16, 2-16 or 2,4,8 (default {}; run: {})",
                             kPapersProcessors, cores()));
  tools::add_json_option(command, o.json);
}

void add_logp(tools::Command command, Options& o) {
  command.option("--logp", o.logp,
                 "Costs of messages: 'paper' (the default), or os,or,L[,per_result] in the unit of "
                 "the weights");
}

void add_schedule_commands(tools::Command app, Options& o) {
  tools::Command make = app.command("schedule", "Make schedules and show how good they are");
  add_graph(make, o);
  add_schedulers(make, o);
  add_logp(make, o);
  make.option("--output", o.output, "Write the schedule to this file");
  make.option("--plot", o.plot, "Draw the schedule to this SVG file");
  make.option("--charts", o.charts,
              "Draw speed-up, usage, overhead, overlap and seconds over the number of processors, "
              "to SVG files whose names begin with this");
  tools::Command check = app.command("check", "Prove that a schedule is right");
  add_graph(check, o);
  check.option("schedule", o.input, "File that 'schedule --output' has written").required();
  tools::add_json_option(check, o.json);
  tools::Command draw = app.command("draw", "Draw a schedule as a Gantt chart");
  add_graph(draw, o);
  draw.option("schedule", o.input, "File that 'schedule --output' has written").required();
  draw.option("--plot", o.plot, "SVG file to write").required();
  tools::Command convert = app.command("convert", "Write a graph as .stg, .dot, .json or .hdag");
  add_graph(convert, o);
  convert.option("--output", o.output, "File to write").required();
}

void add_quality_commands(tools::Command app, Options& o) {
  tools::Command distance =
      app.command("distance", "Compare schedules of small random graphs with the optimum");
  tools::Command worst =
      app.command("worst", "Search for a small graph on which a scheduler does badly");
  for (tools::Command command : {distance, worst}) {
    add_schedulers(command, o);
    add_logp(command, o);
    command.option("--tasks", o.tasks,
                   "Number of tasks in a graph, 2 to 10 (distance: the largest number)");
    command.option("--rounds", o.rounds, "Number of graphs to examine");
    command.option("--seed", o.seed, "Seed of the random graphs");
  }
  worst.option("--output", o.output, "Write the worst graph to this file");
}

void add_optima_command(tools::Command app, Options& o) {
  tools::Command optima =
      app.command("optima", "Compare schedules with known optima of graphs in files");
  optima.option("folder", o.input, "Folder of the graphs").required();
  optima
      .option("--optima", o.optima,
              "Files, separated by commas, with lines of the form graph,processors,optimum or "
              "graph,processors,bound,best; a graph is named by its path in the folder, and "
              "messages cost nothing")
      .required();
  add_scheduler_names(optima, o);
  tools::add_json_option(optima, o.json);
}

void add_run_command(tools::Command app, Options& o) {
  tools::Command run =
      app.command("run", "Solve a system of equations by a schedule, on ranks of this machine");
  add_schedulers(run, o);
  run.option("--method", o.method, "Method: gauss-jordan, gauss-jordan-b or lu");
  run.option("--size", o.size, "Number of rows of the matrix (2 to 256)");
  run.option("--transport", o.transport,
             fmt::format("Transport, one of {}", fmt::join(channel_names(), ", ")));
  run.option("--logp", o.run_logp,
             "Costs of messages to schedule with: 'measure', or os,or,L[,per_result] in units of "
             "the time of a task")
      .with_default();
  run.option("--repeat", o.repeat, "Number of runs, of which the median counts");
  run.option("--seed", o.seed, "Seed of the matrix");
  run.flag("--threads", o.threads, "Use threads as ranks instead of processes");
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "Schedules task graphs with packaged messages, and checks, draws and runs the schedules");
  Options o;
  add_schedule_commands(app, o);
  add_quality_commands(app, o);
  add_optima_command(app, o);
  add_run_command(app, o);
  app.footer(
      "Examples:\n"
      "  ib_taskgraph schedule --graph gauss-jordan:128 --scheduler sppc,bcsh --processors 2-16\n"
      "  ib_taskgraph schedule --graph lu:128 --scheduler sppc,bcsh --processors 2-16 --charts lu\n"
      "  ib_taskgraph schedule --graph lu:32 --processors 4 --output lu.schedule --plot lu.svg\n"
      "  ib_taskgraph schedule --graph montage:100 --processors 16 --logp 5,5,20\n"
      "  ib_taskgraph check --graph lu:32 lu.schedule\n"
      "  ib_taskgraph distance --scheduler sppc,sppc+ --processors 2,3 --logp 20,10,40\n"
      "  ib_taskgraph run --method lu --size 128 --processors 2 --scheduler sppc,sppc-balanced\n"
      "A schedule's makespan is in the unit of the weights; Sm = work on one processor / "
      "makespan.");
  return tools::run_tool(app, argc, argv, [&]() -> Status {
    if (app.given("schedule")) return run_schedule(o);
    if (app.given("check")) return run_check(o);
    if (app.given("draw")) return run_draw(o);
    if (app.given("convert")) return run_convert(o);
    if (app.given("optima")) return run_optima(o);
    if (app.given("run")) return run_run(o);
    return run_quality(o, app.given("worst"));
  });
}
