#include "studies/task_graph/ecpfd.h"

#include <algorithm>
#include <limits>

#include "studies/task_graph/list_scheduling.h"

namespace ibcoll::task_graph {

namespace {

constexpr Time kNotThere = std::numeric_limits<Time>::max();

/// Longest paths to a task (itself not included) and from it (itself included), with delays.
struct Levels {
  std::vector<Time> t, b;
};
Levels levels(const TaskGraph& graph, const std::vector<TaskId>& order, const EdgeDelay& delay) {
  Levels result{std::vector<Time>(graph.size(), 0), std::vector<Time>(graph.size(), 0)};
  for (TaskId task : order) {
    for (TaskId before : graph.predecessors(task))
      result.t[task] =
          std::max(result.t[task], result.t[before] + graph.weight(before) + delay(before, task));
  }
  for (auto task = order.rbegin(); task != order.rend(); ++task) {
    for (TaskId after : graph.successors(*task))
      result.b[*task] = std::max(result.b[*task], delay(*task, after) + result.b[after]);
    result.b[*task] += graph.weight(*task);
  }
  return result;
}

/// A schedule under construction that can duplicate on trial.
class FastDuplication {
 public:
  FastDuplication(const TaskGraph& graph, const EdgeDelay& delay, int processors)
      : graph_(graph),
        delay_(delay),
        finish_(processors, std::vector<Time>(graph.size(), kNotThere)),
        soonest_(graph.size(), kNotThere),
        head_(graph.size(), 0),
        slots_(processors),
        runs_(processors) {
    for (TaskId task : topological_order(graph)) {
      for (TaskId before : graph.predecessors(task))
        head_[task] = std::max(head_[task], head_[before] + graph.weight(before));
    }
  }

  struct Trial {
    Time start = kNotThere;
    std::vector<ClassicRun> duplicates;
  };

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

  bool used(ProcessorId p) const { return !runs_[p].empty(); }
  bool has(ProcessorId p, TaskId task) const { return finish_[p][task] != kNotThere; }
  const ClassicSchedule& runs() const { return runs_; }

 private:
  /// Ancestors of ancestors are looked at so deep: each level is a call.
  static constexpr int kMaxDepth = 200;

  void add(const ClassicRun& run, ProcessorId p) {
    const Time finish = run.start + graph_.weight(run.task);
    slots_[p].take(run.start, graph_.weight(run.task));
    finish_[p][run.task] = finish;
    soonest_[run.task] = std::min(soonest_[run.task], finish);
    runs_[p].push_back(run);
  }

  void take_back(std::vector<ClassicRun>& duplicates, size_t from, ProcessorId p) {
    for (size_t i = from; i < duplicates.size(); ++i) {
      slots_[p].release(duplicates[i].start, graph_.weight(duplicates[i].task));
      finish_[p][duplicates[i].task] = kNotThere;
    }
    duplicates.resize(from);
  }

  Time arrival(TaskId before, TaskId task, ProcessorId p) const {
    return std::min(finish_[p][before], soonest_[before] + delay_(before, task));
  }

  /// The earliest start of a task on p. Duplicates that make it earlier are noted in `duplicates`
  /// and held on p until the caller takes them back.
  Time start_of(TaskId task, ProcessorId p, int depth, std::vector<ClassicRun>& duplicates) {
    Time best = kNotThere;
    size_t kept = duplicates.size();
    for (;;) {
      Time ready = 0;
      TaskId last = -1;
      for (TaskId before : graph_.predecessors(task)) {
        const Time at = arrival(before, task, p);
        if (at <= ready) continue;
        ready = at;
        last = before;
      }
      const Time start = slots_[p].earliest(ready, graph_.weight(task));
      if (start < best) {
        best = start;
        kept = duplicates.size();
      }
      // Nothing is gained by a copy of a parent where the task would not start earlier with all
      // its inputs, where the parent is here already, or where a copy would come no sooner.
      if (last < 0 || has(p, last) || depth >= kMaxDepth) break;
      if (slots_[p].earliest(head_[task], graph_.weight(task)) >= best) break;
      if (slots_[p].earliest(head_[last], graph_.weight(last)) + graph_.weight(last) >= ready)
        break;
      const Time copy = start_of(last, p, depth + 1, duplicates);
      if (copy + graph_.weight(last) >= ready) break;
      duplicates.push_back({copy, last});
      slots_[p].take(copy, graph_.weight(last));
      finish_[p][last] = copy + graph_.weight(last);
    }
    take_back(duplicates, kept, p);
    return best;
  }

  const TaskGraph& graph_;
  const EdgeDelay& delay_;
  std::vector<std::vector<Time>> finish_;  ///< by processor and task
  std::vector<Time> soonest_;              ///< by task: its first copy
  std::vector<Time> head_;                 ///< work before a task on the heaviest path
  std::vector<Slots> slots_;
  ClassicSchedule runs_;
};

}  // namespace

CriticalPathDominant critical_path_dominant(const TaskGraph& graph, const EdgeDelay& delay) {
  CriticalPathDominant result;
  const std::vector<TaskId> order = topological_order(graph);
  if (order.empty()) return result;
  // No structured binding: clang 14 lets no lambda use one.
  const Levels level = levels(graph, order, delay);
  const std::vector<Time>&t = level.t, &b = level.b;
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
                           const std::function<void(int64_t)>& placed) {
  FastDuplication state(graph, delay, processors);
  const CriticalPathDominant order = critical_path_dominant(graph, delay);
  for (size_t i = 0; i < order.sequence.size(); ++i) {
    const TaskId task = order.sequence[i];
    ProcessorId unused = 0;
    while (unused < processors && state.used(unused)) ++unused;
    ProcessorId chosen = -1;
    FastDuplication::Trial best;
    for (ProcessorId p = 0; p < std::min(processors, unused + 1); ++p) {
      const auto parents = graph.predecessors(task);
      const bool candidate = unused == processors || i >= order.out_branch || p == unused ||
                             std::any_of(parents.begin(), parents.end(),
                                         [&](TaskId before) { return state.has(p, before); });
      if (!candidate) continue;
      FastDuplication::Trial trial = state.attempt(task, p);
      if (chosen >= 0 && trial.start >= best.start) continue;
      best = std::move(trial);
      chosen = p;
    }
    state.commit(task, chosen, best);
    if (placed) placed(static_cast<int64_t>(i) + 1);
  }
  return state.runs();
}

Result<TaskSchedule> schedule_ecpfd(const TaskGraph& graph, const LogP& logp, int processors,
                                    const SchedulerOptions& options) {
  IBCOLL_TRY(refuse_many_copies(graph, processors, options, "ecpfd"));
  const Time message = logp.message();
  return with_messages(graph, logp,
                       plan_ecpfd(
                           graph, [message](TaskId, TaskId) { return message; }, processors,
                           [&](int64_t done) {
                             constexpr int64_t kEvery = 1024;
                             if (options.progress && done % kEvery == 0)
                               options.progress("ecpfd", done, graph.size());
                           }));
}

}  // namespace ibcoll::task_graph
