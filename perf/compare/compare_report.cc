#include "perf/compare/compare_report.h"

#include <algorithm>
#include <cmath>

#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine_info.h"
#include "perf/compare/cells.h"
#include "perf/compare/page.h"
#include "studies/measure/costs_here.h"
#include "studies/measure/machine_line.h"
#include "tools/frame/frame.h"

namespace ibcoll::compare {
namespace {

/// The time of memcpy over ibcoll's; nothing where nobody just copies.
std::optional<double> copying_of(const Measured& measured, size_t size) {
  const Rounds* const copied = measured.find("memcpy", size);
  if (copied == nullptr) return std::nullopt;
  return ratio({copied}, *measured.find("ibcoll", size)).value;
}

/// For people: what the machine is, and its costs by the names that `ib_info --costs` has for them.
std::string machine_text(const MachineInfo& host, const MachineCosts* costs) {
  std::string text = fmt::format("{}, {} cores", host.processor, host.usable_cores);
  for (const CacheInfo& cache : host.caches)
    text += fmt::format(", {} {}", cache.name, format_size(static_cast<int64_t>(cache.bytes)));
  const auto add = [&text](const std::string& title, const auto& figures, const auto& of) {
    text += fmt::format("\n{}:", title);
    for (const auto& figure : figures)
      text += fmt::format("{} {} {}", &figure == &figures.front() ? "" : ";", figure.name,
                          figure_text(figure, of));
  };
  for (size_t i = 0; costs != nullptr && i < kDistances; ++i) {
    if (costs->pairs[i])
      add(fmt::format("between cores, {}", to_string(static_cast<Distance>(i))), pair_figures(),
          *costs->pairs[i]);
  }
  if (costs != nullptr) add("one core", machine_figures(), *costs);
  return text + "\n";
}

}  // namespace

void Speedups::append(const Speedups& more) {
  const auto join = [](std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  join(faster, more.faster);
  join(openmpi, more.openmpi);
  join(mpich, more.mpich);
  join(copying, more.copying);
  join(large_copying, more.large_copying);
  slower += more.slower;
  slower_long += more.slower_long;
}

const std::vector<const char*>& Report::columns() const {
  static const std::vector<const char*> kHere = {"ibcoll", "openmpi", "mpich", "memcpy"},
                                        kMachines = {"ibcoll", "openmpi", "openmpi_ucx", "mpich"};
  return options_->on_machines() ? kMachines : kHere;
}

Result<Report> Report::open(const Options& options) {
  Report report(options);
  IBCOLL_ASSIGN(report.json_, JsonLines::open(options.json));
  if (!options.markdown.empty()) IBCOLL_TRY(write_file(options.markdown, ""));
  report.tables_.after_barrier = options.after_barrier;
  return report;
}

Status Report::machine() {
  IBCOLL_ASSIGN(const MachineInfo host, machine_info());
  tables_.machine = machine_line(host);
  json_.write(tables_.machine);
  // A machine that is too busy, or has one core, is compared all the same.
  const Result<CostsHere> here = measure_costs_here();
  if (here) {
    tables_.costs = here->costs;
    json_.write_lines(costs_text(here->costs));
  } else {
    tools::complain("costs left out: " + here.error().message);
  }
  if (!json_.to_stdout()) fmt::print("{}", machine_text(host, here ? &here->costs : nullptr));
  return {};
}

void Report::state(const State& state) {
  tables_.states.push_back(state);
  json_.write(state_line(state));
  if (json_.to_stdout()) return;
  fmt::print("{}\n", state_text(state));
  std::fflush(stdout);
}

void Report::head(bool private_memory) {
  private_memory_ = private_memory;
  if (json_.to_stdout()) return;
  fmt::print("\n");
  if (options_->on_machines()) {
    fmt::print("{} machines with {} ranks that share this one's cores; ",
               options_->machines->servers(), options_->machines->describe());
  }
  fmt::print(
      "{} cores, ibcoll with {} memory; microseconds a call{}, median of {} rounds\n"
      "speedup: of ibcoll over the faster MPI (least and greatest of a round); {}\n",
      usable_cores(), private_memory ? "private user" : "its own",
      options_->after_barrier ? " that follows a barrier, mean over ranks" : "", options_->rounds,
      options_->on_machines()
          ? "MB between machines: by the counters of their links, all that each contender sent"
          : "of memcpy: the share of a call that plain copying takes");
  if (options_->judge) {
    fmt::print(
        "? or !: slower than allowed, and in {} more rounds not so, or so again (interval of "
        "confidence)\n",
        kRoundsAgain);
  }
}

Speedups Report::rows(contest_collective collective, int ranks, const Measured& measured,
                      const std::map<size_t, Interval>& again) {
  Speedups speedups;
  if (!json_.to_stdout()) {
    fmt::print("\n{}\n{:>5} {:>6}", contest_name(collective), "ranks", "bytes");
    for (const char* name : columns()) fmt::print(" {:>11}", name);
    fmt::print(" {:>8} {:>15} {:>10}\n", "speedup", "",
               options_->on_machines() ? "MB between machines" : "of memcpy");
  }
  for (size_t size = 0; size < measured.rounds.front().size(); ++size)
    row(collective, ranks, size, measured, again, speedups);
  return speedups;
}

void Report::summary(contest_collective collective, const nlohmann::ordered_json& ranks,
                     const Speedups& speedups) {
  if (speedups.faster.empty()) return;
  const auto mean = [](const std::vector<double>& values) {
    return values.empty() ? nlohmann::ordered_json()
                          : nlohmann::ordered_json(geometric_mean(values));
  };
  const double least_large = speedups.large_copying.empty() ? NAN : minimum(speedups.large_copying);
  json_.write({{"summary", "geometric mean over sizes"},
               {"collective", contest_name(collective)},
               {"ranks", ranks},
               {"memory", memory_member(private_memory_)},
               {"speedup", mean(speedups.faster)},
               {"speedup_openmpi", mean(speedups.openmpi)},
               {"speedup_mpich", mean(speedups.mpich)},
               {"copy_fraction", mean(speedups.copying)},
               {"least_copy_fraction_from_256K", least_large},
               {"sizes_slower", speedups.slower},
               {"sizes_slower_from_1us", speedups.slower_long}});
  const std::string which = ranks.is_array() ? "all" : ranks.dump();
  if (json_.to_stdout()) return;
  fmt::print(
      "{}, {} ranks: {:.2f}x the faster MPI in geometric mean; {} of {} sizes slower in "
      "every round, {} of them of 1 us and more\n",
      contest_name(collective), which, geometric_mean(speedups.faster), speedups.slower,
      speedups.faster.size(), speedups.slower_long);
}

void Report::row(contest_collective collective, int ranks, size_t size, const Measured& measured,
                 const std::map<size_t, Interval>& again, Speedups& speedups) {
  const int64_t bytes = sizes_of(*options_, collective)[size];
  nlohmann::ordered_json object = {{"collective", contest_name(collective)},
                                   {"ranks", ranks},
                                   {"bytes_per_pair", bytes},
                                   {"memory", memory_member(private_memory_)},
                                   {"after_barrier", options_->after_barrier},
                                   {"rounds", options_->rounds}};
  std::string cells;
  for (const char* name : columns()) {
    const Rounds* rounds = measured.find(name, size);
    object[fmt::format("{}_us", name)] = rounds != nullptr
                                             ? nlohmann::ordered_json(median_of_all(*rounds) / 1e3)
                                             : nlohmann::ordered_json();
    cells += rounds != nullptr ? fmt::format(" {:>11.2f}", median_of_all(*rounds) / 1e3)
                               : fmt::format(" {:>11}", "-");
  }
  const Rounds& ours = *measured.find("ibcoll", size);
  std::string last;
  // Plain copying is compared where there is no MPI, too.
  std::optional<Cell> cell = cell_of(collective, ranks, bytes, private_memory_, measured, size);
  if (const auto copying = cell ? cell->copying : copying_of(measured, size)) {
    object["copy_fraction"] = *copying;
    if (bytes != 0) speedups.copying.push_back(*copying);
    if (bytes >= kLargeBytes) speedups.large_copying.push_back(*copying);
    last = fmt::format("{:>9.0f}%", 100 * *copying);
  }
  for (size_t i = 0; options_->on_machines() && i < measured.names.size(); ++i) {
    object[measured.names[i] + "_sent_bytes"] = measured.sent_bytes[i][size];
    last += fmt::format("{}{:.2f}", i == 0 ? "" : "/",
                        static_cast<double>(measured.sent_bytes[i][size]) / 1e6);
  }
  std::string verdict = fmt::format(" {:>8} {:>15}", "-", "");
  if (cell) {
    const Interval& faster = cell->faster;
    add_interval(object, "speedup", faster);
    object["speedup_of_rounds"] = cell->of_rounds;
    speedups.faster.push_back(faster.value);
    const bool slower = faster.high < 1;
    speedups.slower += slower ? 1 : 0;
    speedups.slower_long += slower && is_long(*cell) ? 1 : 0;
    verdict = fmt::format(" {:>7.2f}x {:>15}", faster.value,
                          fmt::format("({:.2f}-{:.2f})", faster.low, faster.high));
    if (const auto second = again.find(size); second != again.end()) {
      cell->again = second->second;
      last += fmt::format(" {} {:.2f}x ({:.2f}-{:.2f})", mark(true, is_slow(*cell, usable_cores())),
                          cell->again->value, cell->again->low, cell->again->high);
    }
    if (options_->judge) add_judged(object, *cell, usable_cores());
    tables_.cells.push_back(*std::move(cell));
  }
  for (const auto& [name, list] :
       {std::pair("openmpi", &speedups.openmpi), std::pair("mpich", &speedups.mpich)}) {
    if (const Rounds* one = measured.find(name, size)) {
      list->push_back(ratio({one}, ours).value);
      object[fmt::format("speedup_{}", name)] = list->back();
    }
  }
  json_.write(object);
  if (json_.to_stdout()) return;
  fmt::print("{:>5} {:>6}{}{} {}\n", ranks, format_size(bytes), cells, verdict, last);
  std::fflush(stdout);
}

std::optional<Cell> cell_of(contest_collective collective, int ranks, int64_t bytes,
                            bool private_memory, const Measured& measured, size_t size) {
  const auto mpis = measured.mpis(size);
  if (mpis.empty()) return std::nullopt;
  const Rounds& ours = *measured.find("ibcoll", size);
  return Cell{.collective = collective,
              .ranks = ranks,
              .bytes = bytes,
              .private_memory = private_memory,
              .ours_us = median_of_all(ours) / 1e3,
              .faster = ratio(mpis, ours),
              .of_rounds = speedup_over_fastest(mpis, ours).value,
              .again = std::nullopt,
              .copying = copying_of(measured, size)};
}

void Report::verdict(const Verdict& verdict, double most_load) {
  tables_.judged = true;
  tables_.most_load = most_load;
  json_.write(verdict_line(verdict, most_load));
  if (!json_.to_stdout()) fmt::print("{}", verdict_text(verdict, tables_.cores()));
}

Status Report::close(const std::optional<Tables>& beside) {
  if (!options_->markdown.empty()) {
    std::vector<Tables> machines = {tables_};
    if (beside) machines.push_back(*beside);
    IBCOLL_TRY(write_file(options_->markdown, page(machines)));
  }
  return json_.close();
}

}  // namespace ibcoll::compare
