/// compare_mpi: the collectives of this library, of Open MPI and of MPICH and the plain copying of
/// the same bytes, measured in turns in one run.

#include <sys/ioctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>

#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "perf/compare/jobs.h"
#include "perf/compare/own_contenders.h"
#include "perf/compare/report.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::compare;

std::optional<std::filesystem::path> find_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split(path != nullptr ? path : "", ':')) {
    std::filesystem::path candidate = std::filesystem::path(folder) / program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

/// Each MPI in its best setting for this number of ranks. Open MPI yields by itself when it is told
/// that ranks may outnumber cores; MPICH has to be made to.
std::vector<Contender> contenders(int ranks, bool user_memory, bool report_missing) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string count = std::to_string(ranks);
  std::vector<Contender> all;
  all.push_back({"ibcoll", {}, [user_memory](contest& shared, int seat) {
                   return run_ibcoll(shared, seat, user_memory);
                 }});
  const auto add_mpi = [&](const std::string& name, std::vector<std::string> command) {
    const std::filesystem::path program = here / ("compare_mpi_" + name);
    if (!find_in_path(command.front()) || access(program.c_str(), X_OK) != 0) {
      if (report_missing) {
        fmt::print(stderr, "compare_mpi: {} left out: {} or {} not found\n", name, command.front(),
                   program.string());
      }
      return;
    }
    command.insert(command.end(), {program.string(), "{contest}", "{seat}"});
    all.push_back({name, std::move(command), {}});
  };
  // Root may run it too (containers); btl and pml: shared memory, no network device is looked for.
  add_mpi("openmpi", {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to",
                      "none", "--mca", "pml", "ob1", "--mca", "btl", "vader,self", "-n", count});
  std::vector<std::string> mpich = {"mpirun.mpich", "-bind-to", "none", "-n", count};
  if (ranks > usable_cores()) {
    mpich.insert(mpich.end(), {"env", "LD_PRELOAD=" + (here / "libcompare_mpi_yield.so").string()});
  }
  add_mpi("mpich", std::move(mpich));
  all.push_back({"memcpy", {}, run_memcpy});
  return all;
}

/// One line that is overwritten, where somebody watches.
void show_progress(const std::string& text) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K{}", text);
}

/// What each rank's buffers take, of the rank and the call that need most.
Jobs::Room room_for(const Options& options, int ranks) {
  Jobs::Room room;
  contest_blocks blocks{};
  for (const contest_collective collective : options.collectives) {
    for (const int64_t size : options.sizes) {
      for (int rank = 0; rank < ranks; ++rank) {
        contest_describe(collective, ranks, rank, size, &blocks);
        room.send = std::max(room.send, static_cast<uint64_t>(blocks.send_end));
        room.receive = std::max(room.receive, static_cast<uint64_t>(blocks.receive_end));
        // The root's one buffer.
        if (collective == CONTEST_BCAST) room.receive = std::max(room.receive, room.send);
      }
    }
  }
  return room;
}

/// Sizes that a collective has: a barrier moves nothing.
std::vector<int64_t> sizes_of(const Options& options, contest_collective collective) {
  return collective == CONTEST_BARRIER ? std::vector<int64_t>{0} : options.sizes;
}

Result<Measured> measure(const Options& options, contest_collective collective, int ranks,
                         const std::vector<Contender>& all, Jobs& jobs) {
  const std::vector<int64_t> sizes = sizes_of(options, collective);
  Measured measured;
  for (const Contender& contender : all) measured.names.push_back(contender.name);
  measured.rounds.assign(all.size(), std::vector<Rounds>(sizes.size(), Rounds(options.rounds)));
  Jobs::Order order;
  order.collective = collective;
  order.after_barrier = options.after_barrier;
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t size = 0; size < sizes.size(); ++size) {
      for (size_t turn = 0; turn < all.size(); ++turn) {
        // Another one first in every round: nobody always follows the same neighbour.
        const size_t contender = (turn + round) % all.size();
        show_progress(fmt::format("{}, {} ranks, round {} of {}, {} bytes, {}",
                                  contest_name(collective), ranks, round + 1, options.rounds,
                                  format_size(sizes[size]), all[contender].name));
        order.block_bytes = static_cast<uint64_t>(sizes[size]);
        order.batch_ns = static_cast<uint64_t>(options.batch_ns);
        order.samples = options.samples;
        order.check = round == 0;
        IBCOLL_ASSIGN(measured.rounds[contender][size][round], jobs.measure(contender, order));
      }
    }
  }
  show_progress("");
  return measured;
}

/// Starts the contenders, which keep their jobs for all collectives.
Result<Jobs> start(const Options& options, const std::vector<Contender>& all, int ranks) {
  IBCOLL_ASSIGN(Jobs jobs, Jobs::start(all, ranks, room_for(options, ranks)));
  // Nobody is timed while others still start up: everybody has answered once before.
  for (size_t contender = 0; contender < all.size(); ++contender) {
    Jobs::Order order;
    order.collective = CONTEST_BARRIER;
    order.batch_ns = 1;
    order.samples = 1;
    IBCOLL_TRY(jobs.measure(contender, order));
  }
  return jobs;
}

/// What all contenders together take at the largest size and rank count.
Status check_memory(const Options& options) {
  const int64_t ranks = *std::max_element(options.ranks.begin(), options.ranks.end());
  const Jobs::Room room = room_for(options, static_cast<int>(ranks));
  const double wanted =
                   4.0 * static_cast<double>(ranks) * static_cast<double>(room.send + room.receive),
               available = static_cast<double>(available_memory());
  if (wanted > 0.9 * available) {
    return fail(ErrorCode::kNoMemory,
                "not enough memory: the buffers of {} ranks take {:.1f} GB in four contenders, "
                "{:.1f} GB are available",
                ranks, wanted / 1e9, available / 1e9);
  }
  return {};
}

Status run(const Options& options) {
  IBCOLL_TRY(check_memory(options));
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

Result<contest_collective> parse_collective(std::string_view text) {
  std::string names;
  for (int i = 0; i < CONTEST_COLLECTIVES; ++i) {
    if (text == contest_name(i)) return static_cast<contest_collective>(i);
    names += fmt::format("{}{}", i == 0 ? "" : ", ", contest_name(i));
  }
  return fail(ErrorCode::kInvalidArgument, "unknown collective '{}': all, or of {}", text, names);
}

/// Which collectives the text names, each once.
Result<std::vector<contest_collective>> parse_collectives(std::string_view text) {
  std::vector<contest_collective> found;
  for (int i = 0; text == "all" && i < CONTEST_COLLECTIVES; ++i)
    found.push_back(static_cast<contest_collective>(i));
  if (!found.empty()) return found;
  for (const std::string_view name : split(text, ',')) {
    IBCOLL_ASSIGN(const contest_collective one, parse_collective(name));
    if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
  }
  if (found.empty()) return fail(ErrorCode::kInvalidArgument, "--collective names none");
  return found;
}

/// As typed.
struct Arguments {
  std::string collectives = "alltoall", ranks = "2,4,8", sizes = "64-4M:4", batch = "1ms";
};

Status understand(const Arguments& arguments, Options& options) {
  IBCOLL_ASSIGN(options.collectives, parse_collectives(arguments.collectives));
  for (const std::string_view part : split(arguments.ranks, ',')) {
    IBCOLL_ASSIGN(const int64_t count,
                  parse_integer(part, 1, CONTEST_MAX_RANKS, "the number of ranks"));
    options.ranks.push_back(count);
  }
  if (options.ranks.empty()) return fail(ErrorCode::kInvalidArgument, "--ranks names no number");
  IBCOLL_ASSIGN(options.sizes, parse_sizes(arguments.sizes));
  // Of doubles, and of runs of eight bytes.
  const auto whole =
      std::find_if(options.collectives.begin(), options.collectives.end(),
                   [](auto one) { return contest_reduces(one) || one == CONTEST_ALLTOALLW; });
  for (const int64_t size : options.sizes) {
    if (size < 1 || size > INT32_MAX) {
      return fail(ErrorCode::kInvalidArgument,
                  "size {} is out of range: 1 to {} bytes (MPI counts are ints)", size, INT32_MAX);
    }
    if (whole != options.collectives.end() && size % 8 != 0) {
      return fail(ErrorCode::kInvalidArgument, "size {}: of {} sizes must be multiples of 8", size,
                  contest_name(*whole));
    }
  }
  IBCOLL_ASSIGN(options.batch_ns, parse_duration(arguments.batch));
  if (options.batch_ns < 1000 || options.batch_ns > 10'000'000'000)
    return fail(ErrorCode::kInvalidArgument, "--batch must be 1us to 10s, not {}", arguments.batch);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Collectives of ibcoll against Open MPI, MPICH and plain copying, in turns in one run");
  Options options;
  Arguments typed;
  app.add_option("--collective", typed.collectives, "Which, by name: alltoall,bcast,... or all")
      ->capture_default_str();
  app.add_option("--ranks", typed.ranks, "Rank counts, each a comparison of its own")
      ->capture_default_str();
  app.add_option("--sizes", typed.sizes,
                 "Bytes a pair; of bcast and reductions, of a block: 64,1K,1M or 64-4M (doubling) "
                 "or 64-4M:4")
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "How often everybody is measured in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--samples", options.samples, "Batches a round")
      ->check(CLI::Range(1, static_cast<int>(CONTEST_MAX_SAMPLES)))
      ->capture_default_str();
  app.add_option("--batch", typed.batch, "Calls are timed in batches of about this long")
      ->capture_default_str();
  app.add_flag("--user-memory", options.user_memory,
               "ibcoll works on private memory too, as the MPI libraries do");
  app.add_flag("--barrier", options.after_barrier,
               "As the OSU benchmarks: a barrier of the same library, which is not timed, before "
               "each call; the mean over ranks");
  app.add_option("--json", options.json, "Write one object a line to this file (- : stdout)");
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
