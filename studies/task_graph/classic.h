#pragma once
/// Schedules of the classic model (a fixed delay between processors, no overheads), and their
/// translation into sends and receives.

#include <functional>
#include <vector>

#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

/// How long the result of `from` is on its way to `to` on another processor.
using EdgeDelay = std::function<Time(TaskId from, TaskId to)>;
/// The same for all edges.
EdgeDelay every_edge(Time delay);

/// One execution of a task in a classic schedule.
struct ClassicRun {
  Time start;
  TaskId task;
};

/// By processor, in any order.
using ClassicSchedule = std::vector<std::vector<ClassicRun>>;

/// One message for each result and receiver, sent right after the task ran there first, received
/// right before the first consumer that can't use a local result; then replayed with overheads.
/// Runs at the same time keep the graph's topological order.
TaskSchedule with_messages(const TaskGraph& graph, const LogP& logp,
                           const ClassicSchedule& classic);

}  // namespace ibcoll::task_graph
