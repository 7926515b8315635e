#include "studies/task_graph/charts.h"

#include <algorithm>

#include "studies/drawing/plot.h"

namespace ibcoll::task_graph {

void ScheduleCharts::add(std::string_view scheduler, int processors, const Statistics& figures,
                         double seconds) {
  entries_.push_back({std::string(scheduler), processors, figures, seconds});
}

Status ScheduleCharts::write(const std::string& prefix, const std::string& graph) const {
  struct Chart {
    const char* name;
    const char* title;
    const char* unit;
    double (*value)(const Entry&);
  };
  constexpr Chart kCharts[] = {
      {"speedup", "Speed-up on the model", "Sm = work on one processor / makespan",
       [](const Entry& e) { return e.figures.speedup; }},
      {"usage", "Use of the processors", "part of the time not idle",
       [](const Entry& e) { return e.figures.usage; }},
      {"overhead", "Send and receive overhead", "units of time, all processors",
       [](const Entry& e) { return static_cast<double>(e.figures.overhead); }},
      {"overlap", "Work between two sends", "units of time, all processors",
       [](const Entry& e) { return static_cast<double>(e.figures.overlap); }},
      {"seconds", "Time to make a schedule", "CPU seconds",
       [](const Entry& e) { return e.seconds; }},
  };
  for (const Chart& chart : kCharts) {
    Plot plot;
    plot.title = chart.title;
    plot.subtitle = graph;
    plot.x.label = "processors";
    plot.y.label = chart.unit;
    for (const Entry& entry : entries_) {
      auto series = std::ranges::find(plot.series, entry.scheduler, &Series::name);
      if (series == plot.series.end()) {
        plot.series.push_back({.name = entry.scheduler});
        series = plot.series.end() - 1;
      }
      series->x.push_back(entry.processors);
      series->y.push_back(chart.value(entry));
    }
    IBCOLL_TRY(plot.write(prefix + "_" + chart.name + ".svg"));
  }
  return {};
}

}  // namespace ibcoll::task_graph
