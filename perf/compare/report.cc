#include "perf/compare/report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"

namespace ibcoll::compare {
namespace {

/// From here on a call is to be as fast as copying allows.
constexpr int64_t kLargeBytes = 256 * 1024;

/// The fastest MPI's median, in us; NaN where there is none.
double fastest_us(const std::vector<const Rounds*>& all) {
  double best = NAN;
  for (const Rounds* one : all) best = std::fmin(best, median_of_all(*one) / 1e3);
  return best;
}

std::string short_us(double us) {
  return us < 10    ? fmt::format("{:.2f}", us)
         : us < 100 ? fmt::format("{:.1f}", us)
                    : fmt::format("{:.0f}", us);
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
  if (report.json_.to_stdout()) return report;
  if (options.on_machines()) {
    fmt::print("{} machines with {} ranks that share this one's cores; ",
               options.machines->servers(), options.machines->describe());
  }
  fmt::print(
      "{} cores, ibcoll with {} memory; microseconds a call{}, median of {} rounds\n"
      "speedup: of ibcoll over the faster MPI (least and greatest of a round); {}\n",
      usable_cores(), options.user_memory ? "private user" : "its own",
      options.after_barrier ? " that follows a barrier, mean over ranks" : "", options.rounds,
      options.on_machines()
          ? "MB between machines: by the counters of their links, all that each contender sent"
          : "of memcpy: the share of a call that plain copying takes");
  return report;
}

Speedups Report::rows(contest_collective collective, int ranks, const Measured& measured) {
  Speedups speedups;
  if (!json_.to_stdout()) {
    fmt::print("\n{}\n{:>5} {:>6}", contest_name(collective), "ranks", "bytes");
    for (const char* name : columns()) fmt::print(" {:>11}", name);
    fmt::print(" {:>8} {:>15} {:>10}\n", "speedup", "",
               options_->on_machines() ? "MB between machines" : "of memcpy");
  }
  for (size_t size = 0; size < measured.rounds.front().size(); ++size)
    row(collective, ranks, size, measured, speedups);
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
               {"speedup", mean(speedups.faster)},
               {"speedup_openmpi", mean(speedups.openmpi)},
               {"speedup_mpich", mean(speedups.mpich)},
               {"copy_fraction", mean(speedups.copying)},
               {"least_copy_fraction_from_256K", least_large},
               {"sizes_slower", speedups.slower},
               {"sizes_slower_from_1us", speedups.slower_long}});
  const std::string which = ranks.is_array() ? "all" : ranks.dump();
  means_.push_back({collective, which, geometric_mean(speedups.faster), speedups.slower,
                    speedups.slower_long, least_large});
  if (json_.to_stdout()) return;
  fmt::print(
      "{}, {} ranks: {:.2f}x the faster MPI in geometric mean; {} of {} sizes slower in "
      "every round, {} of them of 1 us and more\n",
      contest_name(collective), which, geometric_mean(speedups.faster), speedups.slower,
      speedups.faster.size(), speedups.slower_long);
}

void Report::row(contest_collective collective, int ranks, size_t size, const Measured& measured,
                 Speedups& speedups) {
  const int64_t bytes = collective == CONTEST_BARRIER ? 0 : options_->sizes[size];
  nlohmann::ordered_json object = {{"collective", contest_name(collective)},
                                   {"ranks", ranks},
                                   {"bytes_per_pair", bytes},
                                   {"memory", options_->user_memory ? "user" : "engine"},
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
  const double ours_us = median_of_all(ours) / 1e3;
  double copying = 0;
  std::string last;
  if (const Rounds* copied = measured.find("memcpy", size)) {
    copying = ratio({copied}, ours).value;
    object["copy_fraction"] = copying;
    if (bytes != 0) speedups.copying.push_back(copying);
    if (bytes >= kLargeBytes) speedups.large_copying.push_back(copying);
    last = fmt::format("{:>9.0f}%", 100 * copying);
  }
  for (size_t i = 0; options_->on_machines() && i < measured.names.size(); ++i) {
    object[measured.names[i] + "_sent_bytes"] = measured.sent_bytes[i][size];
    last += fmt::format("{}{:.2f}", i == 0 ? "" : "/",
                        static_cast<double>(measured.sent_bytes[i][size]) / 1e6);
  }
  std::string verdict = fmt::format(" {:>8} {:>15}", "-", "");
  if (const auto mpis = measured.mpis(size); !mpis.empty()) {
    const Ratio faster = ratio(mpis, ours);
    object["speedup"] = faster.value;
    object["speedup_low"] = faster.low;
    object["speedup_high"] = faster.high;
    speedups.faster.push_back(faster.value);
    const bool slower = faster.high < 1;
    speedups.slower += slower ? 1 : 0;
    speedups.slower_long += slower && ours_us >= 1 ? 1 : 0;
    verdict = fmt::format(" {:>7.2f}x {:>15}", faster.value,
                          fmt::format("({:.2f}-{:.2f})", faster.low, faster.high));
    cells_.push_back({collective, ranks, bytes, ours_us, fastest_us(mpis), faster.value, faster.low,
                      faster.high, copying});
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

/// A table of means, and one a collective with a row for each size and a column for each number of
/// ranks.
std::string Report::markdown() const {
  std::string text =
      "| collective | ranks | faster | sizes slower in every round (of 1 us and more) | least "
      "share "
      "of copying from 256K |\n|---|---|---|---|---|\n";
  for (const Means& m : means_) {
    text += fmt::format("| {} | {} | {:.2f}x | {} ({}) | {} |\n", contest_name(m.collective),
                        m.ranks, m.faster, m.slower, m.slower_long,
                        std::isnan(m.least_large_copying)
                            ? "-"
                            : fmt::format("{:.0f} %", 100 * m.least_large_copying));
  }
  for (const contest_collective collective : options_->collectives) {
    std::set<int64_t> sizes;
    for (const Cell& cell : cells_)
      if (cell.collective == collective) sizes.insert(cell.bytes);
    if (sizes.empty()) continue;
    text += fmt::format("\n| {}: bytes |", contest_name(collective));
    std::string line = "|---|";
    for (const int64_t ranks : options_->ranks) {
      text += fmt::format(" {} ranks |", ranks);
      line += "---|";
    }
    text += "\n" + line + "\n";
    for (const int64_t size : sizes) {
      text += fmt::format("| {} |", format_size(size));
      for (const int64_t ranks : options_->ranks) {
        const auto cell = std::find_if(cells_.begin(), cells_.end(), [&](const Cell& one) {
          return one.collective == collective && one.bytes == size && one.ranks == ranks;
        });
        text +=
            cell == cells_.end()
                ? " - |"
                : fmt::format(" {} / {} = {:.2f}x ({:.2f} to {:.2f}) |", short_us(cell->theirs_us),
                              short_us(cell->ours_us), cell->faster, cell->low, cell->high);
      }
      text += "\n";
    }
  }
  return text;
}

Status Report::close() {
  if (!options_->markdown.empty()) IBCOLL_TRY(write_file(options_->markdown, markdown()));
  return json_.close();
}

}  // namespace ibcoll::compare
