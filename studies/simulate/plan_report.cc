#include "studies/simulate/plan_report.h"

#include <algorithm>
#include <array>

#include "engine/base/table.h"
#include "engine/base/units.h"

namespace ibcoll::sim {

namespace {

using contention_free::Plan;

struct Measure {
  const char* name;
  const char* label;
  Scale scale;
};
/// By PlanMeasure.
constexpr std::array<Measure, 5> kMeasures = {{{"over_bound", "time / lower bound", Scale::kLog2},
                                               {"simulated_us", "time (us)", Scale::kLog10},
                                               {"plan_ms", "planning (ms CPU)", Scale::kLog10},
                                               {"groups", "link groups", Scale::kLog10},
                                               {"waited_us", "longest wait (us)", Scale::kLinear}}};

double value(const PlanRow& row, PlanMeasure measure) {
  switch (measure) {
    case PlanMeasure::kOverBound:
      return row.result.over_bound();
    case PlanMeasure::kSimulated:
      return row.result.time_us();
    case PlanMeasure::kPlanned:
      return row.result.plan_ms;
    case PlanMeasure::kGroups:
      return static_cast<double>(row.result.plan.groups);
    case PlanMeasure::kWaited:
      return row.result.waited_us.value_or(0);
  }
  return 0;
}

std::string policy_of(const PlanRow& row) {
  return row.by_policy() ? to_string(row.result.plan.policy) : "-";
}

/// Whether rows differ in something.
template <class Get>
bool differ(const std::vector<PlanRow>& rows, Get&& get) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const PlanRow& row) { return get(row) != get(rows.front()); });
}

/// How many characters, from a comma on, all networks have at their end.
size_t common_end(const std::vector<PlanRow>& rows) {
  const std::string& first = rows.front().network;
  size_t length = first.size();
  for (const PlanRow& row : rows) {
    const auto [a, b] =
        std::mismatch(first.rbegin(), first.rbegin() + static_cast<ptrdiff_t>(length),
                      row.network.rbegin(), row.network.rend());
    length = static_cast<size_t>(a - first.rbegin());
  }
  const size_t comma = first.find(',', first.size() - length);
  return comma == std::string::npos ? 0 : first.size() - comma;
}

}  // namespace

nlohmann::ordered_json to_json(const PlanRow& row) {
  const PlanResult& result = row.result;
  const Plan& plan = result.plan;
  nlohmann::ordered_json json = {{"collective", to_string(plan.collective)},
                                 {"network", row.network},
                                 {"servers", plan.servers},
                                 {"size", row.size},
                                 {"planner", to_string(plan.planner)},
                                 {"policy", policy_of(row)},
                                 {"relay", row.by_policy() && row.relay},
                                 {"tokens_ahead", plan.tokens_ahead},
                                 {"tasks", result.tasks},
                                 {"tokens", result.tokens},
                                 {"groups", plan.groups},
                                 {"plan_ms", result.plan_ms},
                                 {"planned_us", static_cast<double>(plan.time_ns) * 1e-3},
                                 {"simulated_us", nullptr},
                                 {"waited_us", nullptr},
                                 {"jitter_us", nullptr},
                                 {"lower_bound_us", static_cast<double>(plan.bound_ns) * 1e-3},
                                 {"over_bound", result.over_bound()},
                                 {"relayed_bytes", plan.relayed_bytes},
                                 {"relay_buffer_bytes", plan.relay_buffer_bytes},
                                 {"jitter_ns", plan.jitter_ns},
                                 {"wrong", row.wrong},
                                 {"error", row.error},
                                 {"checked", nullptr}};
  if (result.simulated_us) json["simulated_us"] = *result.simulated_us;
  if (result.waited_us) json["waited_us"] = *result.waited_us;
  if (result.jitter_us) json["jitter_us"] = *result.jitter_us;
  if (row.checked) json["checked"] = result.violation.empty();
  if (result.lookup_ns) json["lookup_ns"] = *result.lookup_ns;
  if (result.lookup_counts_ns) json["lookup_counts_ns"] = *result.lookup_counts_ns;
  return json;
}

std::string plan_table(const std::vector<PlanRow>& rows) {
  const bool networks = differ(rows, [](const PlanRow& row) { return row.network; });
  const bool wrongs = differ(rows, [](const PlanRow& row) { return row.wrong; });
  std::vector<std::string> header = {
      "size",    "planner",      "policy",         "relay", "tasks",         "tokens", "groups",
      "plan_ms", "simulated_us", "lower_bound_us", "ratio", "relayed_bytes", "checked"};
  if (wrongs) header.insert(header.begin(), "wrong");
  if (networks) header.insert(header.begin(), "network");
  Table table(header);
  for (const PlanRow& row : rows) {
    const PlanResult& result = row.result;
    const char* relay = !row.by_policy() ? "-" : row.relay ? "on" : "off";
    const char* checked = !row.checked ? "-" : result.violation.empty() ? "yes" : "NO";
    std::vector<std::string> cells = {
        format_size(row.size),
        to_string(result.plan.planner),
        policy_of(row),
        relay,
        std::to_string(result.tasks),
        std::to_string(result.tokens),
        std::to_string(result.plan.groups),
        fmt::format("{:.2f}", result.plan_ms),
        fmt::format("{:.1f}", result.time_us()),
        fmt::format("{:.1f}", static_cast<double>(result.plan.bound_ns) * 1e-3),
        fmt::format("{:.3f}", result.over_bound()),
        std::to_string(result.plan.relayed_bytes),
        checked};
    if (wrongs) cells.insert(cells.begin(), fmt::format("{}", row.wrong));
    if (networks) cells.insert(cells.begin(), row.network);
    table.add_row(std::move(cells));
  }
  return table.text();
}

Result<PlanMeasure> parse_measure(std::string_view text) {
  for (size_t i = 0; i < kMeasures.size(); ++i) {
    if (text == kMeasures[i].name) return static_cast<PlanMeasure>(i);
  }
  return fail(ErrorCode::kInvalidArgument,
              "unknown measure '{}': over_bound, simulated_us, plan_ms, groups or waited_us", text);
}

Plot plan_comparison(const std::vector<PlanRow>& rows, PlanMeasure measure) {
  const bool wrongs = differ(rows, [](const PlanRow& row) { return row.wrong; });
  const bool networks = differ(rows, [](const PlanRow& row) { return row.network; });
  const bool sizes = differ(rows, [](const PlanRow& row) { return row.size; });
  const bool planners = differ(rows, [](const PlanRow& row) { return row.asked; });
  const bool relays = differ(rows, [](const PlanRow& row) { return row.by_policy() && row.relay; });
  const Measure& shown = kMeasures[static_cast<size_t>(measure)];
  Plot plot;
  plot.title = to_string(rows.front().result.plan.collective);
  if (!networks) plot.title += fmt::format(" on {}", rows.front().network);
  if (!sizes) plot.title += fmt::format(", {}", format_size(rows.front().size));
  plot.y.label = shown.label;
  plot.y.scale = shown.scale;
  if (wrongs) {
    plot.x.label = "figures wrong by up to";
    plot.y.scale = Scale::kLinear;
    if (measure == PlanMeasure::kOverBound) plot.y.low = 1;
  } else if (networks) {
    plot.x.label = "servers";
  } else {
    plot.x.label = "bytes a block";
    plot.x.scale = Scale::kLog2;
    plot.x.ticks = TickLabels::kSize;
  }
  const size_t alike = networks ? common_end(rows) : 0;
  for (const PlanRow& row : rows) {
    std::string name = to_string(row.asked);
    const bool by_policy = row.by_policy() && row.asked != contention_free::Planner::kBest;
    if (by_policy) name += fmt::format(" {}", to_string(row.result.plan.policy));
    if (relays && by_policy) name += row.relay ? ", relaying" : ", no relaying";
    if (wrongs && networks) {
      name = row.network.substr(0, row.network.size() - alike) + (planners ? ", " + name : "");
    }
    if ((wrongs || networks) && sizes) name += ", " + format_size(row.size);
    auto series = std::find_if(plot.series.begin(), plot.series.end(),
                               [&](const Series& one) { return one.name == name; });
    if (series == plot.series.end()) {
      plot.series.push_back({name, {}, {}, {}, {}, Mark::kLine, false});
      series = plot.series.end() - 1;
    }
    const double x = wrongs     ? row.wrong
                     : networks ? row.result.plan.servers
                                : static_cast<double>(row.size);
    const double y = value(row, measure);
    const auto at = std::find(series->x.begin(), series->x.end(), x);
    if (at == series->x.end()) {
      series->x.push_back(x);
      series->y.push_back(y);
    } else {
      double& most = series->y[static_cast<size_t>(at - series->x.begin())];
      most = std::max(most, y);
    }
  }
  return plot;
}

}  // namespace ibcoll::sim
