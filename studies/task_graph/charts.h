#pragma once
/// Figures of schedules over the number of processors, a line for each scheduler.

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

/// Collects the figures of schedules and draws them as the paper's evaluation does (section 9.2,
/// figures 14 to 20).
class ScheduleCharts {
 public:
  /// `seconds`: CPU time that making the schedule took.
  void add(std::string_view scheduler, int processors, const Statistics& figures, double seconds);

  /// Writes PREFIX_speedup.svg, PREFIX_usage.svg, PREFIX_overhead.svg, PREFIX_overlap.svg and
  /// PREFIX_seconds.svg. `graph` is named in the pictures.
  Status write(const std::string& prefix, const std::string& graph) const;

 private:
  struct Entry {
    std::string scheduler;
    int processors;
    Statistics figures;
    double seconds;
  };
  std::vector<Entry> entries_;
};

}  // namespace ibcoll::task_graph
