#include "studies/simulate/plan_gantt.h"

#include <algorithm>

#include "engine/base/units.h"
#include "engine/planner/contention_free/model.h"
#include "studies/drawing/plot_axis.h"
#include "studies/drawing/svg.h"

namespace ibcoll::contention_free {

namespace {

constexpr size_t kMostRows = 28;
constexpr size_t kMostBoxes = 1500;  // more make files that nobody opens
constexpr double kLeft = 190, kWidth = 760, kRight = 40, kRow = 16, kTop = 46;

struct Box {
  int64_t begin_ns, end_ns;
  uint32_t transfer;
};

struct Row {
  int link = 0;
  int64_t busy_ns = 0;
  std::vector<Box> boxes;
};

}  // namespace

Status draw_plan(const PlanInputs& inputs, const Plan& plan, const std::string& path) {
  IBCOLL_ASSIGN(const Problem problem, make_problem(inputs));
  std::vector<Row> rows(inputs.fabric->links());
  Path route;
  for (uint32_t i = 0; i < plan.transfers.size(); ++i) {
    const Transfer& t = plan.transfers[i];
    problem.walk(t.from, t.to, route);
    const int64_t length = duration_ns(t);
    for (const Hop& hop : route.hops) {
      Row& row = rows[hop.link];
      row.link = hop.link;
      row.busy_ns += static_cast<int64_t>(static_cast<double>(t.bytes) * 1e9 /
                                          inputs.fabric->link(hop.link).bandwidth);
      const int64_t begin = t.start_ns + hop.before_ns;
      row.boxes.push_back({begin, begin + length, i});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.busy_ns > b.busy_ns; });
  size_t shown = 0, boxes = 0;
  while (shown < std::min(rows.size(), kMostRows) && !rows[shown].boxes.empty() &&
         (shown == 0 || boxes + rows[shown].boxes.size() <= kMostBoxes)) {
    boxes += rows[shown++].boxes.size();
  }
  rows.resize(shown);
  const double height = kTop + kRow * static_cast<double>(rows.size()) + 34;
  Svg svg(kLeft + kWidth + kRight, height);
  svg.text(12, 20,
           fmt::format("{} on {}, {}: {} ({} at best)", to_string(plan.collective),
                       inputs.fabric->name(), to_string(plan.planner),
                       format_duration(plan.time_ns), format_duration(plan.bound_ns)),
           {{"class", "fg"}});
  svg.text(12, 36, "busiest links over time; colours: senders", {{"class", "dim"}});
  const double scale = kWidth / static_cast<double>(std::max<int64_t>(plan.time_ns, 1));
  double y = kTop;
  for (const Row& row : rows) {
    const topology::Link& link = inputs.fabric->link(row.link);
    svg.text(kLeft - 8, y + kRow - 5,
             fmt::format("{} > {}", inputs.fabric->node(link.from).name,
                         inputs.fabric->node(link.to).name),
             {{"class", "fg"}, {"text-anchor", "end"}, {"font-size", "10"}});
    for (const Box& box : row.boxes) {
      const Transfer& t = plan.transfers[box.transfer];
      const double x = kLeft + scale * static_cast<double>(box.begin_ns);
      const double width = std::max(0.3, scale * static_cast<double>(box.end_ns - box.begin_ns));
      // Of a wide link transfers at once lie over each other, as high as their part of it.
      const double part = std::min(1.0, t.rate / link.bandwidth);
      svg.begin_group({{"class", series_class(static_cast<size_t>(t.from))}});
      svg.rect(x, y + 1 + (kRow - 3) * (1 - part) * (static_cast<double>(box.transfer % 8) / 8),
               width, (kRow - 3) * part,
               {{"fill", "currentColor"},
                {"fill-opacity", "0.75"},
                {"stroke", t.forwards == Transfer::kNone ? "none" : "black"},
                {"stroke-width", "0.6"}});
      svg.end_group();
    }
    y += kRow;
  }
  const auto end = static_cast<double>(std::max<int64_t>(plan.time_ns, 1));
  const ScaledAxis axis({.low = 0, .high = end}, 0, end, 6);
  for (const Tick& tick : axis.ticks()) {
    const double x = kLeft + kWidth * axis.fraction(tick.value);
    svg.line(x, kTop, x, y, {{"class", "grid"}});
    svg.text(x, y + 16, format_duration(static_cast<int64_t>(tick.value)),
             {{"class", "dim"}, {"text-anchor", "middle"}});
  }
  return svg.write(path);
}

}  // namespace ibcoll::contention_free
