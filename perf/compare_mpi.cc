/// compare_mpi: the collectives of this library, of Open MPI and of MPICH and the plain copying of
/// the same bytes, measured in turns in one run.

#include <CLI/CLI.hpp>

#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "perf/compare/measure.h"
#include "perf/compare/mpi_contenders.h"
#include "perf/compare/own_contenders.h"
#include "perf/compare/report.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::compare;

/// Each MPI in its best setting for this number of ranks. Open MPI yields by itself when it is told
/// that ranks may outnumber cores; MPICH has to be made to.
std::vector<Contender> contenders(int ranks, bool user_memory, bool report_missing) {
  std::vector<Contender> all;
  all.push_back({"ibcoll", {}, [user_memory](contest& shared, int seat) {
                   return run_ibcoll(shared, seat, user_memory);
                 }});
  for (const std::string mpi : kMpis) {
    std::vector<std::string> preloads;
    if (mpi == "mpich" && ranks > usable_cores()) preloads.push_back(yielding_library());
    std::string missing;
    if (const auto found = mpi_contender(mpi, mpi, ranks, preloads, &missing))
      all.push_back(*found);
    else if (report_missing)
      fmt::print(stderr, "compare_mpi: {} left out: {}\n", mpi, missing);
  }
  all.push_back({"memcpy", {}, run_memcpy});
  return all;
}

Status run(const Options& options) {
  constexpr int kContenders = 4;
  IBCOLL_TRY(check_memory(options, kContenders));
  IBCOLL_ASSIGN(Report report, Report::open(options));
  contenders(2, options.user_memory, true);
  std::vector<Speedups> totals(CONTEST_COLLECTIVES);
  for (const int64_t count : options.ranks) {
    const auto ranks = static_cast<int>(count);
    const std::vector<Contender> all = contenders(ranks, options.user_memory, false);
    IBCOLL_ASSIGN(Jobs jobs, start(options, all, ranks));
    for (const contest_collective collective : options.collectives) {
      IBCOLL_ASSIGN(const Measured measured, measure(options, collective, ranks, all, jobs));
      const Speedups speedups = report.rows(collective, ranks, measured);
      report.summary(collective, ranks, speedups);
      totals[collective].append(speedups);
    }
    IBCOLL_TRY(jobs.finish());
  }
  if (options.ranks.size() > 1) {
    for (const contest_collective collective : options.collectives)
      report.summary(collective, options.ranks, totals[collective]);
  }
  return report.close();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Collectives of ibcoll against Open MPI, MPICH and plain copying, in turns in one run");
  Options options;
  Arguments typed;
  add_options(app, typed, options);
  app.add_flag("--user-memory", options.user_memory,
               "ibcoll works on private memory too, as the MPI libraries do");
  app.add_flag("--barrier", options.after_barrier,
               "As the OSU benchmarks: a barrier of the same library, which is not timed, before "
               "each call; the mean over ranks");
  app.add_option("--markdown", options.markdown, "Write the tables of a page to this file");
  app.footer(
      "Examples:\n"
      "  compare_mpi --ranks 8 --sizes 1K,1M\n"
      "  compare_mpi --collective allreduce,bcast --sizes 8,1K,64K,1M\n"
      "  compare_mpi --collective all --barrier --sizes 8,1K --json osu.json\n"
      "  compare_mpi --user-memory --rounds 15 --json user.json\n"
      "What the columns mean: docs/benchmarking.md.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "compare_mpi: {}\n", error.what());
    return 2;
  }
  if (const Status parsed = understand(typed, options); !parsed) {
    fmt::print(stderr, "compare_mpi: {}\n", parsed.error().message);
    return 2;
  }
  usable_cores();
  handle_interrupts();
  if (const Status done = run(options); !done) {
    show_progress("");
    fmt::print(stderr, "compare_mpi: {}\n", done.error().message);
    return interrupted() ? 130 : done.error().code == ErrorCode::kPeerFailed ? 1 : 2;
  }
  return 0;
}
