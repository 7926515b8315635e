#pragma once
/// Where tasks and copies of tasks run, for schedulers that duplicate.

#include <algorithm>
#include <limits>
#include <vector>

#include "studies/task_graph/classic.h"

namespace ibcoll::task_graph {

class Copies {
 public:
  static constexpr Time kNever = std::numeric_limits<Time>::max();

  Copies(const TaskGraph& graph, const EdgeDelay& delay, int processors)
      : graph_(graph),
        delay_(delay),
        finish_(processors, std::vector<Time>(graph.size(), kNever)),
        soonest_(graph.size(), kNever),
        runs_(processors) {}

  bool used(ProcessorId p) const { return !runs_[p].empty(); }
  bool has(ProcessorId p, TaskId task) const { return finish_[p][task] != kNever; }

  struct Input {
    Time ready = 0;    ///< when p has all inputs of a task
    TaskId last = -1;  ///< the one that comes last; -1 if nothing is waited for
  };
  Input last_input(TaskId task, ProcessorId p) const {
    Input input;
    for (TaskId before : graph_.predecessors(task)) {
      const Time at = std::min(finish_[p][before], soonest_[before] + delay_(before, task));
      if (at <= input.ready) continue;
      input = {at, before};
    }
    return input;
  }

  /// A copy that may be taken back: processors other than p don't know of it.
  void try_out(const ClassicRun& run, ProcessorId p) {
    finish_[p][run.task] = run.start + graph_.weight(run.task);
  }
  void take_back(TaskId task, ProcessorId p) { finish_[p][task] = kNever; }

  void add(const ClassicRun& run, ProcessorId p) {
    try_out(run, p);
    soonest_[run.task] = std::min(soonest_[run.task], finish_[p][run.task]);
    runs_[p].push_back(run);
  }
  const ClassicSchedule& runs() const { return runs_; }

 private:
  const TaskGraph& graph_;
  const EdgeDelay& delay_;
  std::vector<std::vector<Time>> finish_;  ///< by processor and task
  std::vector<Time> soonest_;              ///< by task: its first copy
  ClassicSchedule runs_;
};

/// How a task would go on a processor: when it would start, behind which copies of what it needs.
struct Trial {
  Time start = Copies::kNever;
  std::vector<ClassicRun> duplicates;
};

}  // namespace ibcoll::task_graph
