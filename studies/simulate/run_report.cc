#include "studies/simulate/run_report.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "engine/base/table.h"
#include "engine/base/units.h"
#include "studies/simulate/blocking_model.h"

namespace ibcoll::sim {

namespace {

std::string microseconds(double time) {
  if (time < 0) return "-";
  return time < 100 ? fmt::format("{:.3f}", time) : fmt::format("{:.1f}", time);
}

bool has_bandwidth(const SimRow& row) { return row.report.bandwidth_MBps > 0; }

double used(const SimRow& row, const topology::Fabric& fabric, size_t link) {
  const double bytes_a_us = fabric.link(static_cast<int>(link)).bandwidth * 1e-6;
  const double time = row.report.time_us;
  return time <= 0 ? 0 : static_cast<double>(row.report.link_bytes[link]) / bytes_a_us / time;
}

std::string conditions(const SimRow& row, const topology::Fabric& fabric) {
  const NetworkOptions& net = row.options.network;
  if (net.level == Level::kFlow) {
    return fmt::format("{}; flow level, queues {}", fabric.name(), to_string(net.queues));
  }
  return fmt::format("{}; packets of {}, queues {}, arbiter {}, NIC {}", fabric.name(),
                     format_size(net.mtu_bytes), to_string(net.queues), to_string(net.arbiter),
                     to_string(net.nic));
}

/// What the size of a collective is of.
const char* size_label(Collective collective) {
  if (is_alltoall(collective)) return "bytes a pair";
  const CollectiveTraits& row = traits(collective);
  return row.send.slots <= Slots::kOne && row.recv.slots <= Slots::kOne ? "bytes" : "bytes a rank";
}

/// A size that all rows have: "64K a pair".
std::string one_size(const SimRow& row) {
  const std::string_view of = size_label(row.algorithm->collective);
  return fmt::format("{}{}", format_size(static_cast<int64_t>(row.bytes_per_pair())),
                     of.substr(std::min(of.size(), of.find(' '))));
}

}  // namespace

std::string SimRow::label(bool with_mode) const {
  std::string text(algorithm->name);
  if (options.mode == Mode::kPaced && algorithm->paced) {
    text += fmt::format("/{}", to_string(options.algorithm.pacing));
  }
  if (with_mode) text += fmt::format(", {}", to_string(options.mode));
  return text;
}

nlohmann::ordered_json to_json(const SimRow& row, const topology::Fabric& fabric, bool steps,
                               bool links) {
  const CollectiveReport& report = row.report;
  const NetworkOptions& net = row.options.network;
  const RunOptions& run = row.options.run;
  const bool paced = row.options.mode == Mode::kPaced && row.algorithm->paced;
  nlohmann::ordered_json json = {
      {"collective", to_string(row.algorithm->collective)},
      {"algorithm", row.algorithm->name},
      {"pacing", paced ? to_string(row.options.algorithm.pacing) : "none"},
      {"bytes_per_pair", row.bytes_per_pair()},
      {"mode", to_string(row.options.mode)},
      {"time_us", report.time_us},
      {"a2a_bandwidth_MBps", report.bandwidth_MBps},
      {"link_fraction", report.link_fraction},
      {"max_link_utilisation", report.max_link_utilisation},
      {"events", report.events},
      {"wall_s", report.wall_s},
      {"events_per_s", report.wall_s > 0 ? report.events / report.wall_s : 0.0},
      {"network", fabric.name()},
      {"layout", row.shape.describe()},
      {"ranks", row.shape.ranks()},
      {"servers", row.shape.servers()},
      {"level", to_string(net.level)},
      {"queues", to_string(net.queues)},
      {"arbiter", to_string(net.arbiter)},
      {"nic", to_string(net.nic)},
      {"cut_through", net.cut_through},
      {"mtu_bytes", net.mtu_bytes},
      {"header_bytes", net.header_bytes},
      {"buffer_packets", net.buffer_packets},
      {"virtual_lanes", report.lanes},
      {"window", row.options.mode == Mode::kPaced ? row.options.algorithm.window : 0},
      {"send_overhead_ns", run.send_overhead_ns},
      {"recv_overhead_ns", run.recv_overhead_ns},
      {"copy_MBps", run.copy_bytes_per_second * 1e-6},
      {"skew_ns", run.skew_ns},
      {"jitter", run.jitter},
      {"seed", run.seed},
      {"messages", report.messages},
      {"first_rank_us", report.min_rank_us},
      {"mean_rank_us", report.mean_rank_us}};
  if (steps) {
    auto& list = json["step_us"] = nlohmann::ordered_json::array();
    for (const double time : report.step_us) {
      list.push_back(time < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(time));
    }
  }
  if (links) {
    auto& list = json["links"] = nlohmann::ordered_json::array();
    for (size_t link = 0; link < report.link_bytes.size(); ++link) {
      if (report.link_bytes[link] == 0) continue;
      list.push_back({{"link", link_name(fabric, static_cast<uint32_t>(link))},
                      {"bytes", report.link_bytes[link]},
                      {"utilisation", used(row, fabric, link)}});
    }
  }
  return json;
}

std::string SummaryLines::joined(const std::vector<std::string>& cells) const {
  return fmt::format(
      "{:<{}}  {:<8}  {:<{}}  {:>10}  {:>10}  {:>9}  {:>8}  {:>12}  {:>10}  {:>8}  {:>7}\n",
      cells[0], label_width_, cells[1], cells[2], layout_width_, cells[3], cells[4], cells[5],
      cells[6], cells[7], cells[8], cells[9], cells[10]);
}

std::string SummaryLines::head() const {
  return joined({"algorithm", "mode", "layout", "bytes/pair", "time us", "a2a MB/s", "of link",
                 "busiest link", "events", "events/s", "wall s"});
}

std::string SummaryLines::line(const SimRow& row) const {
  const CollectiveReport& report = row.report;
  const bool bandwidth = has_bandwidth(row);
  return joined(
      {row.label(false), to_string(row.options.mode), row.shape.describe(),
       format_size(static_cast<int64_t>(row.bytes_per_pair())), microseconds(report.time_us),
       bandwidth ? fmt::format("{:.1f}", report.bandwidth_MBps) : "-",
       bandwidth ? fmt::format("{:.2f} %", 100 * report.link_fraction) : "-",
       fmt::format("{:.2f} %", 100 * report.max_link_utilisation), fmt::format("{}", report.events),
       fmt::format("{:.3g}", report.wall_s > 0 ? report.events / report.wall_s : 0.0),
       fmt::format("{:.2f}", report.wall_s)});
}

std::string step_table(const std::vector<SimRow>& rows) {
  std::vector<std::string> header = {"step"};
  size_t steps = 0;
  for (const SimRow& row : rows) {
    header.push_back(row.label(true) + " us");
    steps = std::max(steps, row.report.step_us.size());
  }
  Table table(std::move(header));
  for (size_t step = 0; step < steps; ++step) {
    std::vector<std::string> cells = {fmt::format("{}", step)};
    for (const SimRow& row : rows) {
      cells.push_back(step < row.report.step_us.size() ? microseconds(row.report.step_us[step])
                                                       : "-");
    }
    table.add_row(std::move(cells));
  }
  return table.text();
}

std::string link_table(const SimRow& row, const topology::Fabric& fabric, size_t most) {
  std::vector<uint32_t> links(row.report.link_bytes.size());
  std::iota(links.begin(), links.end(), 0);
  std::stable_sort(links.begin(), links.end(), [&](uint32_t a, uint32_t b) {
    return used(row, fabric, a) > used(row, fabric, b);
  });
  links.resize(std::min(most, links.size()));
  Table table({"link", "MB", "busy"});
  for (const uint32_t link : links) {
    if (row.report.link_bytes[link] == 0) break;
    table.add_row({link_name(fabric, link),
                   fmt::format("{:.3f}", static_cast<double>(row.report.link_bytes[link]) * 1e-6),
                   fmt::format("{:.2f} %", 100 * used(row, fabric, link))});
  }
  return table.text();
}

Plot bandwidth_plot(const std::vector<SimRow>& rows, const topology::Fabric& fabric) {
  std::set<uint64_t> sizes;
  std::set<int> servers, local;
  std::set<Mode> modes;
  for (const SimRow& row : rows) {
    sizes.insert(row.bytes_per_pair());
    servers.insert(row.shape.servers());
    local.insert(row.shape.max_server_size());
    modes.insert(row.options.mode);
  }
  const bool over_servers = sizes.size() == 1 && servers.size() > 1;
  const Collective collective = rows.front().algorithm->collective;
  Plot plot;
  plot.title = fmt::format("{}, simulated", to_string(collective));
  plot.subtitle = conditions(rows.front(), fabric);
  if (over_servers) {
    plot.subtitle += fmt::format("; {}", one_size(rows.front()));
    plot.x = {.label = "servers"};
  } else {
    plot.subtitle += fmt::format("; {}", rows.front().shape.describe());
    plot.x = {.label = size_label(collective), .scale = Scale::kLog2, .ticks = TickLabels::kSize};
  }
  const bool alltoall = is_alltoall(collective);
  plot.y = {
      .label = fmt::format("{} bandwidth (MB/s)", alltoall ? "all-to-all" : to_string(collective))};
  std::vector<Series> series;
  std::map<std::string, size_t> by_name;
  for (const SimRow& row : rows) {
    std::string name = row.label(modes.size() > 1);
    if (local.size() > 1) name += fmt::format(", {} a server", row.shape.max_server_size());
    if (!over_servers && servers.size() > 1) name += fmt::format(", {}", row.shape.describe());
    const auto [at, fresh] = by_name.emplace(name, series.size());
    if (fresh) series.push_back({.name = name});
    series[at->second].x.push_back(over_servers ? row.shape.servers()
                                                : static_cast<double>(row.bytes_per_pair()));
    series[at->second].y.push_back(row.report.bandwidth_MBps);
  }
  plot.series = std::move(series);
  return plot;
}

Plot step_plot(const std::vector<SimRow>& rows, const topology::Fabric& fabric) {
  const SimRow& front = rows.front();
  const int local = front.shape.max_server_size(), ranks = front.shape.ranks();
  const double unit = static_cast<double>(front.bytes_per_pair()) * local /
                      (fabric.link(fabric.host_link(0)).bandwidth * 1e-6);
  Plot plot;
  plot.title =
      fmt::format("{}: time of each step, simulated", to_string(front.algorithm->collective));
  plot.subtitle =
      fmt::format("{}; {}, {}", conditions(front, fabric), front.shape.describe(), one_size(front));
  plot.x = {.label = "step"};
  plot.y = {.label = "time, 1 = a server's blocks at link rate"};
  const StepModel* known = nullptr;
  for (const SimRow& row : rows) {
    if (known == nullptr && row.options.mode == Mode::kBarrier)
      known = step_model_of(*row.algorithm);
    Series series{.name = row.label(true)};
    for (size_t step = 1; step < row.report.step_us.size(); ++step) {
      if (row.report.step_us[step] <= 0) continue;
      series.x.push_back(static_cast<double>(step));
      series.y.push_back(row.report.step_us[step] / unit);
    }
    plot.series.push_back(std::move(series));
  }
  if (known != nullptr && front.shape.equal_servers() && front.shape.consecutive(0)) {
    Series model{.name = known->label, .dashed = true};
    for (int step = local; step <= ranks - local; ++step) {
      model.x.push_back(step);
      model.y.push_back(known->step_time(step, local));
    }
    plot.series.push_back(std::move(model));
  }
  return plot;
}

}  // namespace ibcoll::sim
