#include "studies/task_graph/ecpfd.h"

#include <algorithm>

#include "studies/task_graph/copies.h"

namespace ibcoll::task_graph {

namespace {

/// A schedule under construction that can duplicate into idle slots on trial.
class FastDuplication {
 public:
  FastDuplication(const TaskGraph& graph, const EdgeDelay& delay, int processors)
      : graph_(graph),
        head_(top_levels(graph)),
        copies_(graph, delay, processors),
        slots_(processors) {}

  Trial attempt(TaskId task, ProcessorId p) {
    Trial trial;
    trial.start = start_of(task, p, 0, trial.duplicates);
    const std::vector<ClassicRun> made = trial.duplicates;
    take_back(trial.duplicates, 0, p);
    trial.duplicates = made;
    return trial;
  }

  void commit(TaskId task, ProcessorId p, const Trial& trial) {
    for (const ClassicRun& run : trial.duplicates) add(run, p);
    add({trial.start, task}, p);
  }

  const Copies& copies() const { return copies_; }

 private:
  /// So many generations of ancestors are looked at: each is a call on the stack.
  static constexpr int kMaxDepth = 200;

  void add(const ClassicRun& run, ProcessorId p) {
    slots_[p].take(run.start, graph_.weight(run.task));
    copies_.add(run, p);
  }

  void try_out(const ClassicRun& run, ProcessorId p) {
    slots_[p].take(run.start, graph_.weight(run.task));
    copies_.try_out(run, p);
  }

  void take_back(std::vector<ClassicRun>& duplicates, size_t from, ProcessorId p) {
    for (size_t i = from; i < duplicates.size(); ++i) {
      slots_[p].release(duplicates[i].start, graph_.weight(duplicates[i].task));
      copies_.take_back(duplicates[i].task, p);
    }
    duplicates.resize(from);
  }

  /// The earliest start of a task on p. Duplicates that make it earlier are noted in `duplicates`
  /// and held on p until the caller takes them back.
  Time start_of(TaskId task, ProcessorId p, int depth, std::vector<ClassicRun>& duplicates) {
    Time best = Copies::kNever;
    size_t kept = duplicates.size();
    for (;;) {
      const auto [ready, last] = copies_.last_input(task, p);
      const Time start = slots_[p].earliest(ready, graph_.weight(task));
      if (start < best) {
        best = start;
        kept = duplicates.size();
      }
      // Nothing is gained by a copy of a parent where the task would not start earlier with all
      // its inputs, where the parent is here already, or where a copy would come no sooner.
      if (last < 0 || copies_.has(p, last) || depth >= kMaxDepth) break;
      if (slots_[p].earliest(head_[task], graph_.weight(task)) >= best) break;
      if (slots_[p].earliest(head_[last], graph_.weight(last)) + graph_.weight(last) >= ready)
        break;
      const Time copy = start_of(last, p, depth + 1, duplicates);
      if (copy + graph_.weight(last) >= ready) break;
      duplicates.push_back({copy, last});
      try_out(duplicates.back(), p);
    }
    take_back(duplicates, kept, p);
    return best;
  }

  const TaskGraph& graph_;
  const std::vector<Time> head_;  ///< no copy of a task starts earlier, whatever is duplicated
  Copies copies_;
  std::vector<Slots> slots_;
};

}  // namespace

CriticalPathDominant critical_path_dominant(const TaskGraph& graph, const EdgeDelay& delay) {
  CriticalPathDominant result;
  const std::vector<TaskId> order = topological_order(graph);
  if (order.empty()) return result;
  const std::vector<Time> t = downward_ranks(graph, order, delay),
                          b = upward_ranks(graph, order, delay);
  std::vector<bool> placed(graph.size(), false);
  const auto before_other = [&](TaskId a, TaskId other) {
    return b[a] != b[other] ? b[a] > b[other] : t[a] < t[other];
  };
  TaskId at = order.front();
  for (TaskId task : order) {
    if (b[task] > b[at]) at = task;
  }
  std::vector<TaskId> stack;
  while (at >= 0) {
    stack.push_back(at);
    while (!stack.empty()) {
      const TaskId task = stack.back();
      TaskId next = -1;
      for (TaskId before : graph.predecessors(task)) {
        if (!placed[before] && (next < 0 || before_other(before, next))) next = before;
      }
      if (next >= 0) {
        stack.push_back(next);
        continue;
      }
      stack.pop_back();
      placed[task] = true;
      result.sequence.push_back(task);
    }
    // The next task of the path: what is left of it is the longest way out.
    TaskId next = -1;
    for (TaskId after : graph.successors(at)) {
      if (next < 0 || delay(at, after) + b[after] > delay(at, next) + b[next]) next = after;
    }
    at = next;
  }
  result.out_branch = result.sequence.size();
  for (TaskId task : order) {
    if (!placed[task]) result.sequence.push_back(task);
  }
  std::stable_sort(result.sequence.begin() + static_cast<int64_t>(result.out_branch),
                   result.sequence.end(), [&](TaskId a, TaskId c) { return b[a] > b[c]; });
  return result;
}

ClassicSchedule plan_ecpfd(const TaskGraph& graph, const EdgeDelay& delay, int processors,
                           const Placed& placed) {
  FastDuplication state(graph, delay, processors);
  const CriticalPathDominant order = critical_path_dominant(graph, delay);
  for (size_t i = 0; i < order.sequence.size(); ++i) {
    const TaskId task = order.sequence[i];
    ProcessorId unused = 0;
    while (unused < processors && state.copies().used(unused)) ++unused;
    ProcessorId chosen = -1;
    Trial best;
    for (ProcessorId p = 0; p < std::min(processors, unused + 1); ++p) {
      const auto parents = graph.predecessors(task);
      const bool candidate = unused == processors || i >= order.out_branch || p == unused ||
                             std::any_of(parents.begin(), parents.end(), [&](TaskId before) {
                               return state.copies().has(p, before);
                             });
      if (!candidate) continue;
      Trial trial = state.attempt(task, p);
      if (chosen >= 0 && trial.start >= best.start) continue;
      best = std::move(trial);
      chosen = p;
    }
    state.commit(task, chosen, best);
    if (placed) placed(static_cast<int64_t>(i) + 1);
  }
  return state.copies().runs();
}

Result<TaskSchedule> schedule_ecpfd(const TaskGraph& graph, const LogP& logp, int processors,
                                    const SchedulerOptions& options) {
  IBCOLL_TRY(refuse_many_copies(graph, processors, options, "ecpfd"));
  constexpr int64_t kReportEvery = 1024;
  return with_messages(graph, logp,
                       plan_ecpfd(graph, every_edge(logp.message()), processors,
                                  reporting(options, "ecpfd", graph, kReportEvery)));
}

}  // namespace ibcoll::task_graph
