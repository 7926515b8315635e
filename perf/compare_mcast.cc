/// compare_mcast: multicasts to random sets by this library, and broadcasts on communicators of the
/// same sets by Open MPI and MPICH, in turns in one run.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/json.h"
#include "engine/base/json_lines.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/bootstrap/binding.h"
#include "engine/bootstrap/launch.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;
namespace fs = std::filesystem;

struct Options {
  std::vector<int64_t> ranks, sizes;
  int rounds = 5, sets = 50, warmup = 20, fewest = 2;
  uint64_t seed = 1;
  std::string json;
};

/// One program that is run once a round for all sizes.
struct Contender {
  std::string name;
  std::string command;
};

/// Medians in us, by round.
using Rounds = std::vector<double>;
/// By way ("ibcoll", "mpich ready", ...) and size.
using Measured = std::map<std::string, std::map<int64_t, Rounds>>;

fs::path own_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

bool in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split(path != nullptr ? path : "", ':'))
    if (access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

/// The processor of each rank, the same for all contenders.
Result<std::string> processors(int ranks) {
  IBCOLL_ASSIGN(const std::vector<CpuSet> cores, usable_core_sets());
  const std::vector<CpuSet> plan = plan_binding(ranks, cores);
  std::string list;
  for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank)
    list += fmt::format("{}{}", rank == 0 ? "" : ",", plan.empty() ? -1 : plan[rank].front());
  return list;
}

/// Each MPI as compare_mpi runs it: yielding where ranks outnumber cores.
Result<std::vector<Contender>> contenders(const Options& options, int ranks) {
  const std::string here = own_folder().string();
  const int most = ranks - 1, least = std::min(options.fewest, most);
  std::string sizes;
  for (const int64_t size : options.sizes)
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ",", size);
  std::vector<Contender> all;
  all.push_back({"ibcoll", fmt::format("{}/ib_mcast_bench --ranks {} --members {}-{} --sets {} "
                                       "--warmup {} --seed {} --sizes {} --json -",
                                       here, ranks, least, most, options.sets, options.warmup,
                                       options.seed, sizes)});
  IBCOLL_ASSIGN(const std::string where, processors(ranks));
  const auto add = [&](const std::string& name, const std::string& launcher) {
    const std::string program = here + "/mcast_mpi_" + name;
    if (!in_path("mpirun." + name) || access(program.c_str(), X_OK) != 0) {
      fmt::print(stderr, "compare_mcast: {} left out: mpirun.{} or {} not found\n", name, name,
                 program);
      return;
    }
    all.push_back({name, fmt::format("{} {} {} {} {} {} {} {} {}", launcher, program, options.seed,
                                     least, most, options.warmup, options.sets, sizes, where)});
  };
  add("openmpi", fmt::format("mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none "
                             "--mca pml ob1 --mca btl vader,self -n {}",
                             ranks));
  add("mpich",
      fmt::format(
          "mpirun.mpich -bind-to none -n {}{}", ranks,
          ranks > usable_cores() ? " env LD_PRELOAD=" + here + "/libcompare_mpi_yield.so" : ""));
  return all;
}

/// What a command writes to standard output.
Result<std::string> output_of(const Contender& contender) {
  FILE* const pipe = popen(("timeout 300 " + contender.command + " </dev/null").c_str(), "r");
  if (pipe == nullptr) return fail_errno("can't start " + contender.name);
  std::string text;
  std::array<char, 4096> chunk{};
  for (size_t got; (got = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    text.append(chunk.data(), got);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  return fail(ErrorCode::kPeerFailed, "{} has ended with status {}", contender.name,
              WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

Status run_once(const Contender& contender, Measured& measured) {
  IBCOLL_ASSIGN(const std::string text, output_of(contender));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    IBCOLL_ASSIGN(const nlohmann::ordered_json row, parse_json(line));
    const bool ours = contender.name == "ibcoll";
    const std::string way = ours ? "ibcoll" : contender.name + " " + row["way"].get<std::string>();
    const double us =
        ours ? row["median_us"].get<double>() : median(row["us"].get<std::vector<double>>());
    measured[way][row["bytes"].get<int64_t>()].push_back(us);
  }
  return {};
}

/// How many times faster ours is than the faster MPI; the least and the greatest of a round.
struct Ratio {
  double value = 0, low = HUGE_VAL, high = 0;
};

std::optional<Ratio> ratio(const Measured& measured, const std::string& way, int64_t size) {
  const Rounds& ours = measured.at("ibcoll").at(size);
  std::vector<const Rounds*> theirs;
  for (const char* name : {"openmpi ", "mpich "}) {
    const auto found = measured.find(name + way);
    if (found != measured.end()) theirs.push_back(&found->second.at(size));
  }
  if (theirs.empty()) return std::nullopt;
  const auto fastest = [&](const auto& of) {
    double best = HUGE_VAL;
    for (const Rounds* one : theirs) best = std::min(best, of(*one));
    return best;
  };
  Ratio result;
  result.value = fastest([](const Rounds& rounds) { return median(rounds); }) / median(ours);
  for (size_t round = 0; round < ours.size(); ++round) {
    const double one = fastest([&](const Rounds& all) { return all[round]; }) / ours[round];
    result.low = std::min(result.low, one);
    result.high = std::max(result.high, one);
  }
  return result;
}

void report(const Options& options, int ranks, const Measured& measured, JsonLines& json) {
  static constexpr std::array<const char*, 5> kWays = {"ibcoll", "openmpi ready", "mpich ready",
                                                       "openmpi group", "mpich group"};
  if (!json.to_stdout())
    fmt::print("\n{:>5} {:>6} {:>10} {:>13} {:>11} {:>13} {:>11} {:>22} {:>22}\n", "ranks", "bytes",
               "ibcoll", kWays[1], kWays[2], kWays[3], kWays[4], "over ready", "over group");
  for (const int64_t size : options.sizes) {
    nlohmann::ordered_json object = {{"ranks", ranks},
                                     {"bytes", size},
                                     {"members_least", std::min(options.fewest, ranks - 1)},
                                     {"members_most", ranks - 1},
                                     {"sets", options.sets},
                                     {"rounds", options.rounds},
                                     {"seed", options.seed}};
    std::string cells;
    for (const std::string way : kWays) {
      const auto found = measured.find(way);
      std::string field = way + "_us";
      std::replace(field.begin(), field.end(), ' ', '_');
      const size_t width = way == "ibcoll" ? 10 : way.size();
      if (found == measured.end()) {
        object[field] = nullptr;
        cells += fmt::format(" {:>{}}", "-", width);
      } else {
        object[field] = median(found->second.at(size));
        cells += fmt::format(" {:>{}.2f}", median(found->second.at(size)), width);
      }
    }
    for (const std::string way : {"ready", "group"}) {
      const auto faster = ratio(measured, way, size);
      object["speedup_" + way] =
          faster ? nlohmann::ordered_json(faster->value) : nlohmann::ordered_json();
      object["speedup_" + way + "_low"] =
          faster ? nlohmann::ordered_json(faster->low) : nlohmann::ordered_json();
      object["speedup_" + way + "_high"] =
          faster ? nlohmann::ordered_json(faster->high) : nlohmann::ordered_json();
      cells += fmt::format(" {:>22}", faster ? fmt::format("{:.2f}x ({:.2f}-{:.2f})", faster->value,
                                                           faster->low, faster->high)
                                             : "-");
    }
    json.write(object);
    if (!json.to_stdout()) fmt::print("{:>5} {:>6}{}\n", ranks, format_size(size), cells);
  }
  std::fflush(stdout);
}

Status run(const Options& options) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(options.json));
  if (!json.to_stdout())
    fmt::print(
        "multicasts from rank 0 to {} or more of the others on {} cores; us until the master knows "
        "that all have\nit: medians over {} rounds of the median of {} sets. How many times faster "
        "than the faster MPI, and the\nleast and greatest of a round: over communicators made "
        "before (ready), or for each message (group)\n",
        options.fewest, usable_cores(), options.rounds, options.sets);
  for (const int64_t ranks : options.ranks) {
    IBCOLL_ASSIGN(const std::vector<Contender> all, contenders(options, static_cast<int>(ranks)));
    Measured measured;
    for (int round = 0; round < options.rounds; ++round) {
      // Another one first in every round.
      for (size_t turn = 0; turn < all.size(); ++turn) {
        const Contender& contender = all[(turn + static_cast<size_t>(round)) % all.size()];
        if (isatty(STDERR_FILENO) != 0)
          fmt::print(stderr, "\r\033[K{} ranks, round {} of {}: {}", ranks, round + 1,
                     options.rounds, contender.name);
        IBCOLL_TRY(run_once(contender, measured));
      }
    }
    if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
    report(options, static_cast<int>(ranks), measured, json);
  }
  return json.close();
}

Status understand(const std::string& ranks, const std::string& sizes, Options& options) {
  for (const std::string_view part : split(ranks, ',')) {
    IBCOLL_ASSIGN(const int64_t count, parse_integer(part, 2, 64, "the number of ranks"));
    options.ranks.push_back(count);
  }
  if (options.ranks.empty()) return fail(ErrorCode::kInvalidArgument, "--ranks names no number");
  IBCOLL_ASSIGN(options.sizes, parse_sizes(sizes));
  for (const int64_t size : options.sizes) {
    if (size > INT32_MAX)
      return fail(ErrorCode::kInvalidArgument, "size {} is over {} bytes (MPI counts are ints)",
                  size, INT32_MAX);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "Multicasts to random sets by ibcoll against broadcasts of Open MPI and MPICH on "
      "communicators of the same sets, in turns in one run");
  Options options;
  std::string ranks = "4,8", sizes = "8,1K,8K,64K,80K,1M,8M";
  app.option("--ranks", ranks, "Rank counts, each a comparison of its own").with_default();
  app.option("--sizes", sizes, "Bytes: 8,1K,80K or 64-4M (doubling) or 64-4M:4").with_default();
  app.option("--rounds", options.rounds, "How often everybody is measured in turn")
      .between(1, 1000)
      .with_default();
  app.option("--sets", options.sets, "Sets a round, the same for all")
      .between(1, 1000)
      .with_default();
  app.option("--fewest", options.fewest, "Members that a set has at least, without the master")
      .between(1, 63)
      .with_default();
  app.option("--seed", options.seed, "Sets are drawn by it").with_default();
  app.option("--json", options.json, "Write one object a line to this file (- : stdout)");
  app.footer(
      "Examples:\n"
      "  compare_mcast --ranks 8 --sizes 8,80K\n"
      "  compare_mcast --rounds 9 --json mcast.json\n"
      "What the columns mean: docs/benchmarking.md.");
  return tools::run_tool(app, argc, argv, [&]() -> Status {
    IBCOLL_TRY(understand(ranks, sizes, options));
    return run(options);
  });
}
