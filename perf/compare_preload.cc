/// compare_preload: MPI's collectives with and without libibcoll_mpi.so, in turns in one run; and
/// the engine's own calls, so that what the library adds to them is seen.

#include <algorithm>
#include <map>

#include "engine/base/json_lines.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "perf/compare/cells.h"
#include "perf/compare/measure.h"
#include "perf/compare/mpi_contenders.h"
#include "perf/compare/own_contenders.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::compare;

/// An MPI in one setting, which is a contender with the library and one without.
struct Setting {
  const char* name;
  const char* mpi;
  bool yields;  ///< is made to
};
constexpr Setting kSettings[] = {
    {"openmpi", "openmpi", false}, {"mpich", "mpich", false}, {"mpich_yielding", "mpich", true}};
constexpr int kContenders = 2 * std::size(kSettings) + 1;

/// What the calls of compare_mpi that the library does not take over are called.
bool is_served(contest_collective collective) {
  return collective != CONTEST_ALLTOALLW && collective != CONTEST_NEIGHBOR_ALLGATHER &&
         collective != CONTEST_NEIGHBOR_ALLTOALL;
}

std::string with_library(const char* setting) { return std::string(setting) + "+ibcoll"; }

Result<std::vector<const Setting*>> parse_settings(const std::string& text) {
  std::vector<const Setting*> found;
  std::string names;
  for (const Setting& setting : kSettings)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", setting.name);
  for (const std::string_view name : split(text, ',')) {
    const auto* const one =
        std::find_if(std::begin(kSettings), std::end(kSettings),
                     [&](const Setting& setting) { return name == setting.name; });
    if (one == std::end(kSettings))
      return fail(ErrorCode::kInvalidArgument, "unknown MPI '{}': of {}", name, names);
    if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
  }
  if (found.empty()) return fail(ErrorCode::kInvalidArgument, "--mpi names none: of {}", names);
  return found;
}

std::vector<Contender> contenders(int ranks, std::vector<const Setting*>& settings) {
  std::vector<Contender> all = {
      {"ibcoll", {}, [](contest& shared, int seat) { return run_ibcoll(shared, seat, true); }}};
  std::erase_if(settings, [&](const Setting* setting) {
    std::string missing;
    std::vector<std::string> preloads;
    if (setting->yields) preloads.push_back(yielding_library());
    const auto alone = mpi_contender(setting->name, setting->mpi, local_launch(setting->mpi, ranks),
                                     preloads, &missing);
    if (!alone) {
      fmt::print(stderr, "compare_preload: {} left out: {}\n", setting->name, missing);
      return true;
    }
    preloads.insert(preloads.begin(), path_beside("libibcoll_mpi.so"));
    all.push_back(*alone);
    all.push_back(*mpi_contender(with_library(setting->name), setting->mpi,
                                 local_launch(setting->mpi, ranks), preloads, nullptr));
    return false;
  });
  return all;
}

/// What calls under one setting came to.
struct Totals {
  std::vector<double> faster;
  int slower_long = 0, slower_short = 0;

  void append(const Totals& more) {
    faster.insert(faster.end(), more.faster.begin(), more.faster.end());
    slower_long += more.slower_long;
    slower_short += more.slower_short;
  }
};
using AllTotals = std::map<std::pair<contest_collective, std::string>, Totals>;

/// From here on a call of the MPI's is long: it is to be no slower in proportion, shorter ones by
/// so much at most.
constexpr double kLongUs = 2, kMostAddedUs = 0.060;

/// Of one call under one setting, with the library and without: how many times faster, and how much
/// longer.
struct Cell {
  Interval faster, added_us;
  bool is_long = false;

  bool seems_slow(int ranks) const {
    return is_long ? faster.value < least_faster(ranks, usable_cores())
                   : added_us.value > kMostAddedUs;
  }
  /// With a confidence of 95 %, of both sides.
  bool is_slow(int ranks) const {
    return is_long ? faster.high < least_faster(ranks, usable_cores())
                   : added_us.low > kMostAddedUs;
  }
};
Cell cell_of(const Rounds& alone, const Rounds& with) {
  const std::vector<double> a = medians(alone), b = medians(with);
  std::vector<double> added;
  for (size_t i = 0; i < a.size(); ++i) added.push_back((b[i] - a[i]) / 1e3);
  return {speedup(alone, with), interval(added), median(a) / 1e3 >= kLongUs};
}

class Report {
 public:
  static Result<Report> open(const Options& options) {
    Report report;
    IBCOLL_ASSIGN(report.json_, JsonLines::open(options.json));
    return report;
  }

  /// `again`: of what seemed slower, by setting.
  void row(contest_collective collective, int ranks, int64_t bytes, size_t size,
           const std::vector<const Setting*>& settings, const Measured& measured,
           const std::map<std::string, Cell>& again, AllTotals& totals) {
    const double engine_us = median_of_all(*measured.find("ibcoll", size)) / 1e3;
    std::string cells = fmt::format("{:<20} {:>5} {:>6} {:>9.2f}", contest_name(collective), ranks,
                                    format_size(bytes), engine_us);
    for (const Setting* setting : settings) {
      const Rounds& alone = *measured.find(setting->name, size);
      const Rounds& with = *measured.find(with_library(setting->name), size);
      const Cell cell = cell_of(alone, with);
      const auto second = again.find(setting->name);
      const bool slow = second != again.end() && second->second.is_slow(ranks);
      Totals& total = totals[{collective, setting->name}];
      total.faster.push_back(cell.faster.value);
      (cell.is_long ? total.slower_long : total.slower_short) += slow ? 1 : 0;
      cells +=
          fmt::format("  {:>9.2f} {:>9.2f} {:>6.2f}{} ({:.2f}-{:.2f})",
                      median(medians(alone)) / 1e3, median(medians(with)) / 1e3, cell.faster.value,
                      mark(second != again.end(), slow), cell.faster.low, cell.faster.high);
      nlohmann::ordered_json line = {{"collective", contest_name(collective)},
                                     {"mpi", setting->name},
                                     {"ranks", ranks},
                                     {"bytes_per_pair", bytes},
                                     {"mpi_us", median(medians(alone)) / 1e3},
                                     {"preloaded_us", median(medians(with)) / 1e3},
                                     {"engine_us", engine_us}};
      add_interval(line, "speedup", cell.faster);
      line["slower"] = slow;
      if (second != again.end()) {
        line["again"] = {{"rounds", kRoundsAgain}};
        add_interval(line["again"], "speedup", second->second.faster);
        add_interval(line["again"], "added_us", second->second.added_us);
      }
      json_.write(line);
    }
    if (json_.to_stdout()) return;
    fmt::print("{}\n", cells);
    std::fflush(stdout);
  }

  void summary(contest_collective collective, const std::string& setting,
               const nlohmann::ordered_json& ranks, const Totals& total) {
    const double mean = geometric_mean(total.faster);
    json_.write({{"summary", "geometric mean over sizes"},
                 {"collective", contest_name(collective)},
                 {"mpi", setting},
                 {"ranks", ranks},
                 {"speedup", mean},
                 {"speedup_least", minimum(total.faster)},
                 {"sizes", total.faster.size()},
                 {"sizes_slower_from_2us", total.slower_long},
                 {"sizes_slower_below_2us", total.slower_short}});
    if (json_.to_stdout()) return;
    fmt::print(
        "{}, {} ranks, {}: {:.2f}x in geometric mean, {:.2f}x at least; of {} sizes {} of 2 us "
        "and more slower, {} shorter ones\n",
        contest_name(collective), ranks.is_array() ? "all" : ranks.dump(), setting, mean,
        minimum(total.faster), total.faster.size(), total.slower_long, total.slower_short);
  }

  void head(const Options& options, const std::vector<const Setting*>& settings) {
    if (json_.to_stdout()) return;
    fmt::print(
        "{} cores, private memory; microseconds a call, median of {} rounds: the engine's own, "
        "and of each MPI alone, with the library, and how many times faster that is (interval of "
        "confidence)\n{:<20} {:>5} {:>6} {:>9}",
        usable_cores(), options.rounds, "", "ranks", "bytes", "engine");
    for (const Setting* setting : settings)
      fmt::print("  {:>9} {:>9} {:>19}", setting->name, "with", "");
    fmt::print("\n");
  }
  Status close() { return json_.close(); }

 private:
  JsonLines json_;
};

/// Whatever of one collective seems slower at a size, measured again: by setting.
Result<std::map<std::string, Cell>> measure_slow(const Options& options,
                                                 contest_collective collective, int ranks,
                                                 size_t size,
                                                 const std::vector<const Setting*>& settings,
                                                 const Measured& measured,
                                                 const std::vector<Contender>& all, Jobs& jobs) {
  std::map<std::string, Cell> again;
  for (const Setting* setting : settings) {
    const std::string with = with_library(setting->name);
    if (!cell_of(*measured.find(setting->name, size), *measured.find(with, size)).seems_slow(ranks))
      continue;
    std::vector<size_t> which;
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].name == setting->name || all[i].name == with) which.push_back(i);
    IBCOLL_ASSIGN(const Measured second,
                  measure_again(options, collective, ranks, sizes_of(options, collective)[size],
                                which, kRoundsAgain, all, jobs));
    again[setting->name] = cell_of(*second.find(setting->name, 0), *second.find(with, 0));
  }
  return again;
}

Result<int> run(const Options& options, std::vector<const Setting*> settings) {
  IBCOLL_TRY(check_memory(options, kContenders));
  IBCOLL_ASSIGN(Report report, Report::open(options));
  AllTotals totals;
  bool first = true;
  for (const int64_t count : options.ranks) {
    const auto ranks = static_cast<int>(count);
    const std::vector<Contender> all = contenders(ranks, settings);
    if (settings.empty()) return fail(ErrorCode::kUnsupported, "there is no MPI to compare");
    if (std::exchange(first, false)) report.head(options, settings);
    IBCOLL_ASSIGN(Jobs jobs, start(options, all, ranks));
    for (const contest_collective collective : options.collectives) {
      if (!is_comparable(collective, ranks)) continue;
      IBCOLL_ASSIGN(const Measured measured, measure(options, collective, ranks, all, jobs));
      const std::vector<int64_t> sizes = sizes_of(options, collective);
      AllTotals here;
      for (size_t size = 0; size < sizes.size(); ++size) {
        IBCOLL_ASSIGN(const auto again, measure_slow(options, collective, ranks, size, settings,
                                                     measured, all, jobs));
        report.row(collective, ranks, sizes[size], size, settings, measured, again, here);
      }
      for (const auto& [which, total] : here) {
        report.summary(which.first, which.second, ranks, total);
        totals[which].append(total);
      }
    }
    IBCOLL_TRY(jobs.finish());
  }
  if (options.ranks.size() > 1) {
    for (const auto& [which, total] : totals)
      report.summary(which.first, which.second, options.ranks, total);
  }
  IBCOLL_TRY(report.close());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "Collectives of MPI with and without libibcoll_mpi.so, in turns in one run");
  Options options;
  Arguments typed;
  options.rounds = 7;
  options.samples = 5;
  std::string mpis = "openmpi,mpich,mpich_yielding";
  add_options(app, typed, options);
  app.option("--mpi", mpis, "Under which MPIs; mpich_yielding: made to yield when it waits")
      .with_default();
  app.footer(
      "Examples:\n"
      "  compare_preload --ranks 2 --sizes 64,1M\n"
      "  compare_preload --collective all --mpi openmpi --json preload.json\n"
      "What the columns mean: docs/benchmarking.md.");
  return tools::run_tool_to_status(app, argc, argv, [&]() -> Result<int> {
    IBCOLL_ASSIGN(const auto settings, parse_settings(mpis));
    IBCOLL_TRY(understand(typed, options));
    std::erase_if(options.collectives, [](auto collective) { return !is_served(collective); });
    return run_comparison([&] { return run(options, settings); });
  });
}
