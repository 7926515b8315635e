/// compare_mpi: the collectives of this library, of Open MPI and of MPICH and the plain copying of
/// the same bytes, measured in turns in one run, and judged.

#include <algorithm>
#include <map>

#include "engine/base/input.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "perf/compare/cells.h"
#include "perf/compare/compare_report.h"
#include "perf/compare/contenders.h"
#include "perf/compare/measure.h"
#include "perf/compare/own_contenders.h"
#include "perf/compare/page.h"
#include "perf/compare/state.h"
#include "perf/compare/tables.h"
#include "perf/compare/verdict.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::compare;

/// Exit status where a comparison was to be judged and can't be; 1: it was, and something is slow.
constexpr int kNotJudged = 3, kSlow = 1;

/// What is shown, and by which limits, besides what is measured.
struct Wanted {
  std::string from, beside;
  double most_load = 10;
};

/// Sizes that seem slow, measured again.
Result<std::map<size_t, Interval>> measure_slow(const Options& options,
                                                contest_collective collective, int ranks,
                                                const Measured& measured,
                                                const std::vector<Contender>& all, Jobs& jobs) {
  std::map<size_t, Interval> again;
  std::vector<size_t> which;  // no plain copying
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].name != "memcpy") which.push_back(i);
  const std::vector<int64_t> sizes = sizes_of(options, collective);
  for (size_t size = 0; size < sizes.size(); ++size) {
    const std::optional<Cell> cell =
        cell_of(collective, ranks, sizes[size], options.user_memory, measured, size);
    if (!cell || !seems_slow(*cell, usable_cores())) continue;
    IBCOLL_ASSIGN(const Measured second, measure_again(options, collective, ranks, sizes[size],
                                                       which, kRoundsAgain, all, jobs));
    again[size] = speedup_over_fastest(second.mpis(0), *second.find("ibcoll", 0));
  }
  return again;
}

/// The tables of one memory.
Status measure_tables(const Options& options, Report& report, Parts& parts) {
  report.head(options.user_memory);
  std::vector<Speedups> totals(CONTEST_COLLECTIVES);
  for (const int64_t count : options.ranks) {
    const auto ranks = static_cast<int>(count);
    const std::vector<Contender> all =
        options.on_machines() ? contenders_on_machines(*options.machines, options.user_memory)
                              : contenders(ranks, options.user_memory, false);
    IBCOLL_ASSIGN(Jobs jobs, start(options, all, ranks));
    for (const contest_collective collective : options.collectives) {
      if (!is_comparable(collective, ranks)) continue;
      IBCOLL_ASSIGN(const Measured measured, measure(options, collective, ranks, all, jobs));
      std::map<size_t, Interval> again;
      if (options.judge) {
        IBCOLL_ASSIGN(again, measure_slow(options, collective, ranks, measured, all, jobs));
      }
      const Speedups speedups = report.rows(collective, ranks, measured, again);
      report.summary(collective, ranks, speedups);
      totals[collective].append(speedups);
      parts.end(fmt::format("{}, {} ranks, {}", contest_name(collective), ranks,
                            memory_text(options.user_memory)),
                processor_times());
    }
    IBCOLL_TRY(jobs.finish());
  }
  if (options.ranks.size() > 1) {
    for (const contest_collective collective : options.collectives)
      report.summary(collective, options.ranks, totals[collective]);
  }
  return {};
}

int refuse(const std::string& why) {
  tools::complain("not judged: " + why);
  return kNotJudged;
}

/// The exit status of a verdict.
int status_of(const Verdict& verdict) {
  if (verdict.passes()) return 0;
  const auto means = std::count_if(verdict.means.begin(), verdict.means.end(),
                                   [](const Mean& mean) { return mean.fails(); });
  tools::complain(fmt::format("slower than allowed: {} cells of {}, {} geometric means of {}",
                              verdict.slow.size(), verdict.cells, means, verdict.means.size()));
  return kSlow;
}

Result<Tables> read_tables(const std::string& path) {
  IBCOLL_ASSIGN(const std::string text, read_input(path));
  return of_input(path, parse_tables(text));
}

Result<int> run(const Options& options, const Wanted& wanted) {
  constexpr int kContenders = 4;
  std::optional<Tables> beside;
  if (!wanted.beside.empty()) {
    IBCOLL_ASSIGN(beside, read_tables(wanted.beside));
  }
  IBCOLL_TRY(check_memory(options, kContenders));
  if (!options.on_machines()) {
    const std::vector<Contender> all = contenders(2, options.user_memory, true);
    const auto is_mpi = [](const Contender& one) { return !one.run; };
    if (options.judge && std::none_of(all.begin(), all.end(), is_mpi))
      return fail(ErrorCode::kUnsupported, "there is no MPI to compare");
  }
  // Ranks on machines are no children of this process: they can't be told from others.
  const bool knows_own = !options.on_machines();
  State before;
  if (knows_own) before = state_now("before");
  // What an earlier comparison has written stays there.
  if (options.judge) {
    if (const auto why = why_not_to_judge(before, wanted.most_load)) return refuse(*why);
  }
  IBCOLL_ASSIGN(Report report, Report::open(options));
  IBCOLL_TRY(report.machine());
  if (knows_own) report.state(before);
  const Result<ProcessorTimes> begin = processor_times();
  Parts parts(begin);
  Options of_memory = options;
  for (const bool private_memory : {true, false}) {
    if (!options.all_tables && private_memory != options.user_memory) continue;
    of_memory.user_memory = private_memory;
    IBCOLL_TRY(measure_tables(of_memory, report, parts));
  }
  if (knows_own) {
    State during = state_between("during", begin, processor_times());
    during.worst = parts.worst();
    report.state(during);
    report.state(state_now("after"));
  }
  if (!options.judge) {
    IBCOLL_TRY(report.close(beside));
    return 0;
  }
  if (const auto why = why_not_to_judge(report.tables(), wanted.most_load)) {
    IBCOLL_TRY(report.close(beside));
    return refuse(*why);
  }
  const Verdict verdict = judge(report.tables().cells, report.tables().cores());
  report.verdict(verdict, wanted.most_load);
  IBCOLL_TRY(report.close(beside));
  return status_of(verdict);
}

/// Shows and judges what was measured before.
Result<int> show(const Options& options, const Wanted& wanted) {
  if (options.markdown.empty() && !options.judge)
    return fail(ErrorCode::kInvalidArgument, "--from needs --markdown or --judge");
  std::vector<Tables> machines(1);
  IBCOLL_ASSIGN(machines[0], read_tables(wanted.from));
  if (!wanted.beside.empty()) {
    IBCOLL_ASSIGN(Tables beside, read_tables(wanted.beside));
    machines.push_back(std::move(beside));
  }
  Tables& here = machines.front();
  const auto why = options.judge ? why_not_to_judge(here, wanted.most_load) : std::nullopt;
  if (options.judge) {  // what the file says of an earlier verdict is no matter then
    here.judged = !why;
    here.most_load = wanted.most_load;
  }
  if (!options.markdown.empty()) IBCOLL_TRY(write_file(options.markdown, page(machines)));
  if (!options.judge) return 0;
  if (why) return refuse(*why);
  const Verdict verdict = judge(here.cells, here.cores());
  print("{}", verdict_text(verdict, here.cores()));
  return status_of(verdict);
}

/// One rank of this library's job on machines: compare_mpi rank CONTEST SEAT own|user.
int serve_as_rank(char** arguments) {
  contest* const shared = contest_map(arguments[0]);
  if (shared == nullptr) return 2;
  return run_ibcoll_rank(*shared, std::atoi(arguments[1]),
                         std::string_view(arguments[2]) == "user");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "rank") return serve_as_rank(argv + 2);
  tools::CommandLine app(
      "Collectives of ibcoll against Open MPI, MPICH and plain copying, in turns in one run");
  Options options;
  Arguments typed;
  Wanted wanted;
  add_options(app, typed, options);
  const auto user_memory = app.flag("--user-memory", options.user_memory,
                                    "ibcoll works on private memory too, as the MPI libraries do");
  const auto barrier =
      app.flag("--barrier", options.after_barrier,
               "As the OSU benchmarks: a barrier of the same library, which is not timed, before "
               "each call; the mean over ranks");
  const auto machines =
      app.flag("--machines", typed.machines,
               "Between the machines that ./run machines LAYOUT --launcher none has made, with all "
               "their ranks, over TCP; says how many bytes went over their links");
  const auto markdown =
      app.option("--markdown", options.markdown, "Write the tables of a page to this file");
  const auto all_tables =
      app.flag("--all-tables", options.all_tables,
               fmt::format("Private memory and ibcoll's own, {} ranks, all collectives, sizes {}",
                           kAllRanks, kAllSizes));
  const auto judge =
      app.flag("--judge", options.judge,
               "Say whether ibcoll is as fast as it should be; what seems slow is measured again. "
               "Exit status 1 if something is slow, 3 if others were too busy to tell");
  app.option("--most-load", wanted.most_load,
             "Do not judge where others, or the host, had more than so many percent of the "
             "processor time")
      .between_reals(0, 100)
      .with_default()
      .needs(judge);
  const auto from = app.option("--from", wanted.from,
                               "Measure nothing: take what --json has written to this file");
  app.option("--beside", wanted.beside,
             "Put the tables of this file, which --json has written on another machine, beside "
             "these")
      .needs(markdown);
  for (const char* name : {"--collective", "--ranks", "--sizes"})
    all_tables.excludes(app.described(name));
  for (const auto& one : {user_memory, machines}) all_tables.excludes(one);
  for (const auto& one : {barrier, machines}) judge.excludes(one);
  for (const char* name :
       {"--collective", "--ranks", "--sizes", "--rounds", "--samples", "--batch", "--json"})
    from.excludes(app.described(name));
  for (const auto& one : {user_memory, barrier, machines, all_tables}) from.excludes(one);
  app.footer(
      "Examples:\n"
      "  compare_mpi --ranks 8 --sizes 1K,1M\n"
      "  compare_mpi --collective allreduce,bcast --sizes 8,1K,64K,1M\n"
      "  compare_mpi --collective all --barrier --sizes 8,1K --json osu.json\n"
      "  compare_mpi --user-memory --rounds 15 --json user.json\n"
      "  compare_mpi --all-tables --judge --json all.json --markdown page.md\n"
      "  compare_mpi --from all.json --beside other.json --markdown page.md\n"
      "  ./run machines 4x2 --launcher none compare_mpi --machines --sizes 64-1M:4\n"
      "What the columns mean: docs/benchmarking.md.");
  return tools::run_tool_to_status(app, argc, argv, [&]() -> Result<int> {
    if (!wanted.from.empty()) return show(options, wanted);
    if (options.all_tables) {
      typed.collectives = "all";
      typed.ranks = kAllRanks;
      typed.sizes = kAllSizes;
    }
    IBCOLL_TRY(understand(typed, options));
    return run_comparison([&] { return run(options, wanted); });
  });
}
