#include "studies/measure/bench_report.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "engine/base/copy.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"

namespace ibcoll::measure {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(':') != std::string::npos)
      return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

/// 7 as 7, 2.333... as 2.33.
std::string count_text(double count) {
  return count == std::floor(count) ? fmt::format("{:.0f}", count) : fmt::format("{:.2f}", count);
}

std::string row_label(const BenchRow& row) {
  return row.pacing == "auto" ? row.algorithm : row.algorithm + "/" + row.pacing;
}

nlohmann::ordered_json count_json(double count) {
  return count == std::floor(count) ? nlohmann::ordered_json(static_cast<int64_t>(count))
                                    : nlohmann::ordered_json(count);
}

}  // namespace

std::string describe_run(const BenchSetting& setting, const BenchSettings& settings) {
  utsname system{};
  uname(&system);
  const int cores = usable_cores(), ranks = setting.shape.ranks();
  std::string binding = "not bound";
  if (setting.launched && !setting.bound) {
    binding = "bound as the launcher does";
  } else if (setting.launched) {
    binding = "bound to cores by the launcher or here";
  } else if (setting.bound) {
    binding = ranks <= cores ? "each bound to a core of its own"
                             : fmt::format("bound, {:.3g} to a core",
                                           static_cast<double>(ranks) / static_cast<double>(cores));
  }
  return fmt::format(
      "# {} of {} ranks on {} server{} ({}), {}; between servers: {}\n"
      "{}# {}, {} core{}, {} last-level cache, {} {}; {} memory\n"
      "# times: one call on the slowest rank, over {} iterations of as many calls as take {}{}\n",
      to_string(setting.collective), ranks, setting.shape.servers(),
      setting.shape.servers() == 1 ? "" : "s", setting.shape.describe(), binding,
      setting.transport_reason,
      setting.network.empty() ? "" : fmt::format("# network {}\n", setting.network),
      processor_name(), cores, cores == 1 ? "" : "s",
      format_size(static_cast<int64_t>(last_level_cache_bytes())), system.sysname, system.release,
      setting.user_memory ? "private user" : "the engine's", settings.iterations,
      format_duration(settings.batch_ns), settings.check ? "; every byte checked" : "");
}

std::string table_header(const BenchSetting& setting) {
  std::string text =
      fmt::format("{:>8} {:<26} {:>10} {:>10} {:>10} {:>10} {:>10}", "bytes/pair", "algorithm",
                  "min us", "median us", "p99 us", "max us", "total MB/s");
  if (setting.shape.servers() > 1) {
    text +=
        fmt::format(" {:>10} {:>8} {:>8} {:>11}", "a2a MB/s", "net msgs", "tokens", "net bytes");
  }
  if (moves_data(setting.collective)) text += fmt::format(" {:>8}", "of copy");
  return text + "\n";
}

std::string table_row(const BenchSetting& setting, const BenchRow& row) {
  std::string text = fmt::format("{:>10} {:<26} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.1f}",
                                 format_size(row.bytes_per_pair), row_label(row), row.min_us,
                                 row.median_us, row.p99_us, row.max_us, row.total_MBps);
  if (setting.shape.servers() > 1) {
    text += fmt::format(" {:>10.1f} {:>8} {:>8} {:>11}", row.a2a_bandwidth_MBps,
                        count_text(row.net_messages_per_rank), count_text(row.net_tokens_per_rank),
                        count_text(row.net_bytes_per_rank));
  }
  if (moves_data(setting.collective)) {
    text += row.copy_bandwidth_fraction
                ? fmt::format(" {:>7.1f}%", 100 * *row.copy_bandwidth_fraction)
                : fmt::format(" {:>8}", "-");
  }
  return text + "\n";
}

nlohmann::ordered_json to_json(const BenchSetting& setting, const BenchRow& row) {
  nlohmann::ordered_json fraction, kernel;
  if (row.copy_bandwidth_fraction) {
    fraction = *row.copy_bandwidth_fraction;
    kernel = row.copy_kernel;
  }
  nlohmann::ordered_json network = nlohmann::ordered_json::object();
  for (const auto& [name, value] : row.network) network[name] = count_json(value);
  return {{"collective", to_string(setting.collective)},
          {"algorithm", row.algorithm},
          {"pacing", row.pacing},
          {"bytes_per_pair", row.bytes_per_pair},
          {"ranks", setting.shape.ranks()},
          {"servers", setting.shape.servers()},
          {"layout", setting.shape.describe()},
          {"transport", setting.transport},
          {"fabric", setting.network},
          {"memory", setting.user_memory ? "user" : "engine"},
          {"iterations", row.iterations},
          {"calls_per_iteration", row.calls_per_iteration},
          {"min_us", row.min_us},
          {"median_us", row.median_us},
          {"p99_us", row.p99_us},
          {"max_us", row.max_us},
          {"a2a_bandwidth_MBps", row.a2a_bandwidth_MBps},
          {"total_MBps", row.total_MBps},
          {"copy_bandwidth_fraction", fraction},
          {"copy_kernel", kernel},
          {"net_messages_per_rank", count_json(row.net_messages_per_rank)},
          {"net_tokens_per_rank", count_json(row.net_tokens_per_rank)},
          {"net_bytes_per_rank", count_json(row.net_bytes_per_rank)},
          {"net_queue_pairs_per_rank", row.net_queue_pairs_per_rank},
          {"network", network},
          {"checked", row.checked}};
}

Plot bandwidth_plot(const BenchSetting& setting, const std::vector<BenchRow>& rows) {
  const bool one_server = setting.shape.servers() == 1;
  const bool barrier = !moves_data(setting.collective);
  Plot plot;
  plot.title = fmt::format("{} of {} ranks", to_string(setting.collective), setting.shape.ranks());
  plot.subtitle =
      fmt::format("{} server{} ({}), between them: {}, {} memory; medians", setting.shape.servers(),
                  one_server ? "" : "s", setting.shape.describe(), setting.transport,
                  setting.user_memory ? "private user" : "the engine's");
  plot.x = {.label = "bytes a pair", .scale = Scale::kLog2, .ticks = TickLabels::kSize};
  plot.y.label =
      one_server ? "all bytes over time (MB/s)" : "all-to-all bandwidth of a server (MB/s)";
  if (barrier) {
    plot.x = {};
    plot.y.label = "time (us)";
  }
  for (const BenchRow& row : rows) {
    const std::string label = row_label(row);
    auto series = std::find_if(plot.series.begin(), plot.series.end(),
                               [&](const Series& one) { return one.name == label; });
    if (series == plot.series.end()) {
      plot.series.push_back({.name = label});
      series = plot.series.end() - 1;
      if (barrier) series->mark = Mark::kBar;
    }
    if (barrier) {
      series->x.push_back(static_cast<double>(plot.categories.size()));
      series->y.push_back(row.median_us);
      plot.categories.push_back(label);
    } else {
      series->x.push_back(static_cast<double>(row.bytes_per_pair));
      series->y.push_back(one_server ? row.total_MBps : row.a2a_bandwidth_MBps);
    }
  }
  return plot;
}

}  // namespace ibcoll::measure
