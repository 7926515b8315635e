#pragma once
/// A schedule as a picture.

#include <string>

#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

/// An SVG Gantt chart: one row a processor, time to the right; runs, sends and receives in their
/// own colours, messages as lines where there are few. Instructions too short to see are merged
/// with their neighbours, so a schedule of a million tasks stays small.
std::string gantt_svg(const TaskGraph& graph, const TaskSchedule& schedule,
                      const std::string& title);

}  // namespace ibcoll::task_graph
