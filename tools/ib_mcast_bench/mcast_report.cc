#include "tools/ib_mcast_bench/mcast_report.h"

#include <algorithm>

#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"

namespace ibcoll::tools {
namespace {

std::string members_text(const McastSettings& settings) {
  return settings.draw.least == settings.draw.most
             ? std::to_string(settings.draw.least)
             : fmt::format("{}-{}", settings.draw.least, settings.draw.most);
}

nlohmann::ordered_json number(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

std::string cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

}  // namespace

std::string describe_run(const McastSetting& setting, const McastSettings& settings) {
  const int cores = usable_cores();
  return fmt::format(
      "# multicasts to {} of {} ranks on {} server{} ({}), {} core{}; between servers: {}\n"
      "# {} master{}, {} sets each (seed {}), {} multicast{} at a time{}\n"
      "# times: from the call until all members have acknowledged{}; everybody was reached first, "
      "in {}\n",
      members_text(settings), setting.shape.ranks(), setting.shape.servers(),
      setting.shape.servers() == 1 ? "" : "s", setting.shape.describe(), cores,
      cores == 1 ? "" : "s", setting.transport, settings.masters, settings.masters == 1 ? "" : "s",
      settings.sets, settings.draw.seed, settings.window, settings.window == 1 ? "" : "s",
      settings.repeat ? ", two to each set" : "", settings.check ? "; every byte checked" : "",
      format_duration(static_cast<int64_t>(setting.setup.us * 1e3)));
}

std::string table_header(const McastSettings& settings) {
  std::string text =
      fmt::format("{:>8} {:<18} {:>8} {:>10} {:>10} {:>10} {:>10} {:>9} {:>10} {:>10} {:>6}",
                  "bytes", "algorithm", "members", "min us", "median us", "p99 us", "max us",
                  "master us", "msgs/memb.", "bytes/port", "busy");
  if (settings.repeat) text += fmt::format(" {:>10} {:>10}", "first us", "repeat us");
  if (settings.slow)
    text += fmt::format(" {:>10} {:>10} {:>10}", "before us", "others us", "others max");
  if (settings.slow && settings.masters > 1)
    text += fmt::format(" {:>10} {:>10} {:>10}", "masters b.", "masters us", "m. max");
  if (settings.bound) text += fmt::format(" {:>10} {:>10}", "bound us", "bound kept");
  return text + "\n";
}

std::string table_row(const McastSettings& settings, const McastRow& row) {
  std::string text = fmt::format(
      "{:>8} {:<18} {:>8.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>9.2f} {:>10.2f} {:>10} "
      "{:>6}",
      format_size(row.bytes), row.algorithm, row.members, row.min_us, row.p50_us, row.p99_us,
      row.max_us, row.master_us, row.messages_per_member, cell(row.bytes_per_port), row.busy);
  if (settings.repeat)
    text += fmt::format(" {:>10} {:>10}", cell(row.first_us), cell(row.repeat_us));
  if (settings.slow)
    text += fmt::format(" {:>10} {:>10} {:>10}", cell(row.others_before_us),
                        cell(row.others_p50_us), cell(row.others_max_us));
  if (settings.slow && settings.masters > 1)
    text += fmt::format(" {:>10} {:>10} {:>10}", cell(row.other_masters_before_us),
                        cell(row.other_masters_p50_us), cell(row.other_masters_max_us));
  if (settings.bound)
    text += fmt::format(" {:>10} {:>9.2f}%", cell(row.bound_us), row.bound_kept.value_or(0) * 100);
  return text + "\n";
}

nlohmann::ordered_json to_json(const McastSetting& setting, const McastSettings& settings,
                               const McastRow& row) {
  return {{"algorithm", row.algorithm},
          {"pieces", settings.pieces},
          {"bytes", row.bytes},
          {"members", row.members},
          {"members_least", settings.draw.least},
          {"members_most", settings.draw.most},
          {"ranks", setting.shape.ranks()},
          {"servers", setting.shape.servers()},
          {"layout", setting.shape.describe()},
          {"transport", setting.transport},
          {"masters", settings.masters},
          {"sets", settings.sets},
          {"seed", settings.draw.seed},
          {"window", settings.window},
          {"min_us", row.min_us},
          {"median_us", row.p50_us},
          {"p90_us", row.p90_us},
          {"p99_us", row.p99_us},
          {"max_us", row.max_us},
          {"master_us", row.master_us},
          {"master_p99_us", row.master_p99_us},
          {"first_us", number(row.first_us)},
          {"repeat_us", number(row.repeat_us)},
          {"multicasts_per_second", row.multicasts_per_second},
          {"acks", row.members},
          {"messages_per_member", row.messages_per_member},
          {"bytes_per_port", number(row.bytes_per_port)},
          {"non_member_messages", row.non_member_messages},
          {"busy", row.busy},
          {"memory_bytes", row.memory_bytes},
          {"setup_us", setting.setup.us},
          {"queue_pairs", setting.setup.queue_pairs},
          {"queue_pairs_added", row.queue_pairs_added},
          {"slow_rank",
           settings.slow ? nlohmann::ordered_json(*settings.slow) : nlohmann::ordered_json()},
          {"others", row.others},
          {"others_before_us", number(row.others_before_us)},
          {"others_median_us", number(row.others_p50_us)},
          {"others_max_us", number(row.others_max_us)},
          {"other_masters", row.other_masters},
          {"other_masters_before_us", number(row.other_masters_before_us)},
          {"other_masters_median_us", number(row.other_masters_p50_us)},
          {"other_masters_max_us", number(row.other_masters_max_us)},
          {"bound_us", number(row.bound_us)},
          {"bound_kept", number(row.bound_kept)},
          {"checked", row.checked}};
}

Plot latency_plot(const McastSetting& setting, const McastSettings& settings,
                  const std::vector<McastRow>& rows) {
  Plot plot;
  plot.title =
      fmt::format("multicast to {} of {} ranks", members_text(settings), setting.shape.ranks());
  plot.subtitle = fmt::format("{} server{} ({}), between them: {}; medians, last acknowledgement",
                              setting.shape.servers(), setting.shape.servers() == 1 ? "" : "s",
                              setting.shape.describe(), setting.transport);
  plot.x = {.label = "bytes", .scale = Scale::kLog2, .ticks = TickLabels::kSize};
  plot.y = {.label = "median time (us)", .scale = Scale::kLog10};
  for (const McastRow& row : rows) {
    auto series = std::find_if(plot.series.begin(), plot.series.end(),
                               [&](const Series& one) { return one.name == row.algorithm; });
    if (series == plot.series.end()) {
      plot.series.push_back({.name = row.algorithm});
      series = plot.series.end() - 1;
    }
    series->x.push_back(static_cast<double>(row.bytes));
    series->y.push_back(row.p50_us);
  }
  return plot;
}

}  // namespace ibcoll::tools
