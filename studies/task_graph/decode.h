#pragma once
/// Schedules from sequences of placed tasks, for searches over small graphs.

#include <vector>

#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

struct PlacedTask {
  TaskId task;
  ProcessorId processor;
  bool operator==(const PlacedTask&) const = default;
};

/// Reads a sequence from left to right and fetches what a task needs when it comes to it: the
/// processor that has an input soonest sends everything it holds by then (a message costs the same
/// whatever its size), so the sequence decides what is packed together. Any order of runs, with
/// duplicates, can be written so.
class Decoder {
 public:
  Decoder(const TaskGraph& graph, const LogP& logp, int processors);

  /// The makespan; -1 if a task comes before an input that nobody has. Tasks their processor
  /// already holds are skipped.
  Time makespan(const std::vector<PlacedTask>& sequence);
  /// The schedule, without results in messages that the receiver already has or that nothing there
  /// needs.
  TaskSchedule schedule(const std::vector<PlacedTask>& sequence);

 private:
  Time decode(const std::vector<PlacedTask>& sequence, TaskSchedule* out);
  bool fetch(TaskId task, ProcessorId p, TaskSchedule* out);

  const TaskGraph& graph_;
  const LogP logp_;
  const int processors_;
  std::vector<Time> clock_;
  std::vector<std::vector<Time>> have_;    ///< by processor and task: since when; kNever
  std::vector<std::vector<TaskId>> list_;  ///< by processor: what it holds
  std::vector<size_t> sent_;  ///< by sender and receiver: how much of the sender's list went there
};

/// A sequence that decodes to about this schedule: its runs by start.
std::vector<PlacedTask> sequence_of(const TaskGraph& graph, const TaskSchedule& schedule);

/// Drops what nobody needs: results from messages, messages left empty, duplicates of tasks; then
/// replays. Never longer than before. The schedule must pass check().
void prune_messages(const TaskGraph& graph, TaskSchedule& schedule);

}  // namespace ibcoll::task_graph
