/// compare_mpi: the all-to-all of this library, of Open MPI and of MPICH and the plain copying of
/// the same bytes, measured in turns in one run.

#include <sys/ioctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/json_lines.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "perf/compare/jobs.h"
#include "perf/compare/own_contenders.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::compare;

struct Options {
  std::vector<int64_t> ranks, sizes;
  int rounds = 7;
  int samples = 10;
  int64_t batch_ns = 1'000'000;
  bool user_memory = false;
  std::string json;
};

/// Samples of one contender at one size (nanoseconds a call), a vector for each round.
using Rounds = std::vector<std::vector<double>>;

double median_of_all(const Rounds& rounds) {
  std::vector<double> all;
  for (const auto& round : rounds) all.insert(all.end(), round.begin(), round.end());
  return median(all);
}

/// How many times faster one is: the ratio of the medians, and the least and greatest ratio a
/// single round gave.
struct Ratio {
  double value = 0, low = 0, high = 0;
};

Ratio ratio(const std::vector<const Rounds*>& theirs, const Rounds& ours) {
  const auto fastest = [&](const auto& of) {
    double best = HUGE_VAL;
    for (const Rounds* one : theirs) best = std::min(best, of(*one));
    return best;
  };
  const double of_all = fastest(median_of_all) / median_of_all(ours);
  Ratio result{of_all, of_all, of_all};
  for (size_t round = 0; round < ours.size(); ++round) {
    const double one =
        fastest([&](const Rounds& rounds) { return median(rounds[round]); }) / median(ours[round]);
    result.low = std::min(result.low, one);
    result.high = std::max(result.high, one);
  }
  return result;
}

/// All samples of one rank count: [contender][size][round][sample].
struct Measured {
  std::vector<std::string> names;
  std::vector<std::vector<Rounds>> rounds;

  const Rounds* find(std::string_view name, size_t size) const {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return &rounds[i][size];
    }
    return nullptr;
  }
  /// Those of the MPI libraries that were found.
  std::vector<const Rounds*> mpis(size_t size) const {
    std::vector<const Rounds*> found;
    for (const char* name : {"openmpi", "mpich"}) {
      if (const Rounds* one = find(name, size)) found.push_back(one);
    }
    return found;
  }
};

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

Result<Measured> measure(const Options& options, int ranks) {
  const auto largest = *std::max_element(options.sizes.begin(), options.sizes.end());
  const std::vector<Contender> all = contenders(ranks, options.user_memory, false);
  IBCOLL_ASSIGN(Jobs jobs, Jobs::start(all, ranks, static_cast<uint64_t>(largest)));
  Measured measured;
  for (const Contender& contender : all) measured.names.push_back(contender.name);
  measured.rounds.assign(all.size(),
                         std::vector<Rounds>(options.sizes.size(), Rounds(options.rounds)));
  // Nobody is timed while others still start up: everybody has answered once before.
  for (size_t contender = 0; contender < all.size(); ++contender) {
    Jobs::Order order;
    order.block_bytes = static_cast<uint64_t>(options.sizes.front());
    order.batch_ns = 1;
    order.samples = 1;
    IBCOLL_TRY(jobs.measure(contender, order));
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t size = 0; size < options.sizes.size(); ++size) {
      for (size_t turn = 0; turn < all.size(); ++turn) {
        // Another one first in every round: nobody always follows the same neighbour.
        const size_t contender = (turn + round) % all.size();
        show_progress(fmt::format("{} ranks, round {} of {}, {} bytes, {}", ranks, round + 1,
                                  options.rounds, format_size(options.sizes[size]),
                                  all[contender].name));
        Jobs::Order order;
        order.block_bytes = static_cast<uint64_t>(options.sizes[size]);
        order.batch_ns = static_cast<uint64_t>(options.batch_ns);
        order.samples = options.samples;
        order.check = round == 0;
        IBCOLL_ASSIGN(measured.rounds[contender][size][round], jobs.measure(contender, order));
      }
    }
  }
  show_progress("");
  IBCOLL_TRY(jobs.finish());
  return measured;
}

/// The ratios of all sizes so far, for the geometric means.
struct Speedups {
  std::vector<double> faster, openmpi, mpich, copying;
  int slower = 0;  ///< sizes that were slower in every round

  void append(const Speedups& more) {
    const auto join = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    join(faster, more.faster);
    join(openmpi, more.openmpi);
    join(mpich, more.mpich);
    join(copying, more.copying);
    slower += more.slower;
  }
};

class Output {
 public:
  static Result<Output> open(const std::string& path) {
    Output output;
    IBCOLL_ASSIGN(output.json_, JsonLines::open(path));
    return output;
  }

  void heading(const Options& options) {
    if (json_.to_stdout()) return;
    fmt::print(
        "all-to-all on {} cores, ibcoll with {} memory; microseconds a call, median of {} rounds\n"
        "speedup: of ibcoll over the faster MPI (least and greatest of a round); of memcpy: the "
        "share of a call that plain copying takes\n",
        usable_cores(), options.user_memory ? "private user" : "its own", options.rounds);
  }

  Speedups ranks(const Options& options, int ranks, const Measured& measured) {
    Speedups speedups;
    if (!json_.to_stdout()) {
      fmt::print("\n{:>5} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8} {:>15} {:>10}\n", "ranks",
                 "bytes", "ibcoll", "openmpi", "mpich", "memcpy", "speedup", "", "of memcpy");
    }
    for (size_t size = 0; size < options.sizes.size(); ++size)
      row(options, ranks, size, measured, speedups);
    return speedups;
  }

  void summary(const std::string& what, const nlohmann::ordered_json& ranks,
               const Speedups& speedups) {
    if (speedups.faster.empty()) return;
    const auto mean = [](const std::vector<double>& values) {
      return values.empty() ? nlohmann::ordered_json()
                            : nlohmann::ordered_json(geometric_mean(values));
    };
    json_.write({{"summary", "geometric mean over sizes"},
                 {"ranks", ranks},
                 {"speedup", mean(speedups.faster)},
                 {"speedup_openmpi", mean(speedups.openmpi)},
                 {"speedup_mpich", mean(speedups.mpich)},
                 {"copy_fraction", mean(speedups.copying)},
                 {"sizes_slower", speedups.slower}});
    if (!json_.to_stdout()) {
      fmt::print(
          "{}: {:.2f}x the faster MPI in geometric mean; {} of {} sizes slower in every round\n",
          what, geometric_mean(speedups.faster), speedups.slower, speedups.faster.size());
    }
  }

  Status close() { return json_.close(); }

 private:
  void row(const Options& options, int ranks, size_t size, const Measured& measured,
           Speedups& speedups) {
    nlohmann::ordered_json object = {{"ranks", ranks},
                                     {"bytes_per_pair", options.sizes[size]},
                                     {"memory", options.user_memory ? "user" : "engine"},
                                     {"rounds", options.rounds}};
    std::string cells;
    for (const char* name : {"ibcoll", "openmpi", "mpich", "memcpy"}) {
      const Rounds* rounds = measured.find(name, size);
      object[fmt::format("{}_us", name)] =
          rounds != nullptr ? nlohmann::ordered_json(median_of_all(*rounds) / 1e3)
                            : nlohmann::ordered_json();
      cells += rounds != nullptr ? fmt::format(" {:>10.2f}", median_of_all(*rounds) / 1e3)
                                 : fmt::format(" {:>10}", "-");
    }
    const Rounds& ours = *measured.find("ibcoll", size);
    const double copying = ratio({measured.find("memcpy", size)}, ours).value;
    object["copy_fraction"] = copying;
    speedups.copying.push_back(copying);
    std::string verdict = fmt::format(" {:>8} {:>15}", "-", "");
    if (const auto mpis = measured.mpis(size); !mpis.empty()) {
      const Ratio faster = ratio(mpis, ours);
      object["speedup"] = faster.value;
      object["speedup_low"] = faster.low;
      object["speedup_high"] = faster.high;
      speedups.faster.push_back(faster.value);
      if (faster.high < 1) ++speedups.slower;
      verdict = fmt::format(" {:>7.2f}x {:>15}", faster.value,
                            fmt::format("({:.2f}-{:.2f})", faster.low, faster.high));
    }
    for (const auto& [name, list] :
         {std::pair("openmpi", &speedups.openmpi), std::pair("mpich", &speedups.mpich)}) {
      if (const Rounds* one = measured.find(name, size)) {
        list->push_back(ratio({one}, ours).value);
        object[fmt::format("speedup_{}", name)] = list->back();
      }
    }
    json_.write(object);
    if (!json_.to_stdout()) {
      fmt::print("{:>5} {:>6}{}{} {:>9.0f}%\n", ranks, format_size(options.sizes[size]), cells,
                 verdict, 100 * copying);
      std::fflush(stdout);
    }
  }

  JsonLines json_;
};

/// What all contenders together take at the largest size and rank count.
Status check_memory(const Options& options) {
  const double ranks =
      static_cast<double>(*std::max_element(options.ranks.begin(), options.ranks.end()));
  const double size =
      static_cast<double>(*std::max_element(options.sizes.begin(), options.sizes.end()));
  const double wanted = 4 * 2 * ranks * ranks * size,
               available = static_cast<double>(available_memory());
  if (wanted > 0.9 * available) {
    return fail(ErrorCode::kNoMemory,
                "not enough memory: {:.0f} ranks with {} a pair take {:.1f} GB in four contenders, "
                "{:.1f} GB are available",
                ranks, format_size(static_cast<int64_t>(size)), wanted / 1e9, available / 1e9);
  }
  return {};
}

Status run(const Options& options) {
  IBCOLL_TRY(check_memory(options));
  IBCOLL_ASSIGN(Output output, Output::open(options.json));
  contenders(2, options.user_memory, true);
  output.heading(options);
  Speedups total;
  for (const int64_t ranks : options.ranks) {
    IBCOLL_ASSIGN(const Measured measured, measure(options, static_cast<int>(ranks)));
    const Speedups speedups = output.ranks(options, static_cast<int>(ranks), measured);
    output.summary(fmt::format("{} ranks", ranks), ranks, speedups);
    total.append(speedups);
  }
  if (options.ranks.size() > 1) output.summary("all rank counts", options.ranks, total);
  return output.close();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "All-to-all of ibcoll against Open MPI, MPICH and plain copying, in turns in one run");
  Options options;
  std::string ranks = "2,4,8", sizes = "64-4M:4", batch = "1ms";
  app.add_option("--ranks", ranks, "Rank counts, each a comparison of its own")
      ->capture_default_str();
  app.add_option("--sizes", sizes, "Bytes a pair: 64,1K,1M or 64-4M (doubling) or 64-4M:4")
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "How often everybody is measured in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--samples", options.samples, "Batches a round")
      ->check(CLI::Range(1, static_cast<int>(CONTEST_MAX_SAMPLES)))
      ->capture_default_str();
  app.add_option("--batch", batch, "Calls are timed in batches of about this long")
      ->capture_default_str();
  app.add_flag("--user-memory", options.user_memory,
               "ibcoll works on private memory too, as the MPI libraries do");
  app.add_option("--json", options.json, "Write one object a line to this file (- : stdout)");
  app.footer(
      "Examples:\n"
      "  compare_mpi --ranks 8 --sizes 1K,1M\n"
      "  compare_mpi --user-memory --rounds 15 --json user.json\n"
      "What the columns mean: docs/benchmarking.md.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "compare_mpi: {}\n", error.what());
    return 2;
  }
  const auto parse = [&]() -> Status {
    for (const std::string_view part : split(ranks, ',')) {
      IBCOLL_ASSIGN(const int64_t count,
                    parse_integer(part, 1, CONTEST_MAX_RANKS, "the number of ranks"));
      options.ranks.push_back(count);
    }
    if (options.ranks.empty()) return fail(ErrorCode::kInvalidArgument, "--ranks names no number");
    IBCOLL_ASSIGN(options.sizes, parse_sizes(sizes));
    for (const int64_t size : options.sizes) {
      if (size < 1 || size > INT32_MAX) {
        return fail(ErrorCode::kInvalidArgument,
                    "size {} is out of range: 1 to {} bytes (MPI counts are ints)", size,
                    INT32_MAX);
      }
    }
    IBCOLL_ASSIGN(options.batch_ns, parse_duration(batch));
    if (options.batch_ns < 1000 || options.batch_ns > 10'000'000'000)
      return fail(ErrorCode::kInvalidArgument, "--batch must be 1us to 10s, not {}", batch);
    return {};
  };
  if (const Status parsed = parse(); !parsed) {
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
