/// compare_mpi: the collectives of this library, of Open MPI and of MPICH and the plain copying of
/// the same bytes, measured in turns in one run.

#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "perf/compare/contenders.h"
#include "perf/compare/measure.h"
#include "perf/compare/own_contenders.h"
#include "perf/compare/report.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::compare;

Status run(const Options& options) {
  constexpr int kContenders = 4;
  IBCOLL_TRY(check_memory(options, kContenders));
  IBCOLL_ASSIGN(Report report, Report::open(options));
  if (!options.on_machines()) contenders(2, options.user_memory, true);
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
  add_options(app, typed, options);
  app.flag("--user-memory", options.user_memory,
           "ibcoll works on private memory too, as the MPI libraries do");
  app.flag("--barrier", options.after_barrier,
           "As the OSU benchmarks: a barrier of the same library, which is not timed, before "
           "each call; the mean over ranks");
  app.flag("--machines", typed.machines,
           "Between the machines that ./run machines LAYOUT --launcher none has made, with all "
           "their ranks, over TCP; says how many bytes went over their links");
  app.option("--markdown", options.markdown, "Write the tables of a page to this file");
  app.footer(
      "Examples:\n"
      "  compare_mpi --ranks 8 --sizes 1K,1M\n"
      "  compare_mpi --collective allreduce,bcast --sizes 8,1K,64K,1M\n"
      "  compare_mpi --collective all --barrier --sizes 8,1K --json osu.json\n"
      "  compare_mpi --user-memory --rounds 15 --json user.json\n"
      "  ./run machines 4x2 --launcher none compare_mpi --machines --sizes 64-1M:4\n"
      "What the columns mean: docs/benchmarking.md.");
  return tools::run_tool_to_status(app, argc, argv, [&]() -> Result<int> {
    IBCOLL_TRY(understand(typed, options));
    return run_comparison([&] { return run(options); });
  });
}
