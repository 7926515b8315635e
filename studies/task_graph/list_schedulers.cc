/// HEFT, CPOP, PEFT and ETF on the classic model.

#include <algorithm>
#include <limits>
#include <queue>

#include "studies/task_graph/list_scheduling.h"

namespace ibcoll::task_graph {

namespace {

constexpr int64_t kReportEvery = 65536;

void report(const SchedulerOptions& options, int64_t& done, const TaskGraph& graph) {
  if (options.progress && ++done % kReportEvery == 0)
    options.progress("earliest finish", done, graph.size());
}

/// Tasks that can run, the one of highest priority first; ties go to the lower id.
class ReadyTasks {
 public:
  ReadyTasks(const TaskGraph& graph, const std::vector<Time>& priority)
      : graph_(graph), priority_(priority), missing_(graph.size()) {
    for (TaskId task = 0; task < graph.size(); ++task) {
      missing_[task] = static_cast<int32_t>(graph.predecessors(task).size());
      if (missing_[task] == 0) push(task);
    }
  }
  bool empty() const { return ready_.empty(); }
  TaskId pop() {
    const TaskId task = -ready_.top().second;
    ready_.pop();
    for (TaskId after : graph_.successors(task)) {
      if (--missing_[after] == 0) push(after);
    }
    return task;
  }

 private:
  void push(TaskId task) { ready_.push({priority_[task], -task}); }

  const TaskGraph& graph_;
  const std::vector<Time>& priority_;
  std::vector<int32_t> missing_;
  std::priority_queue<std::pair<Time, TaskId>> ready_;
};

}  // namespace

Result<TaskSchedule> schedule_heft(const TaskGraph& graph, const LogP& logp, int processors,
                                   const SchedulerOptions& options) {
  EarliestFinish state(graph, logp.message(), processors);
  int64_t done = 0;
  for (TaskId task : by_upward_rank(graph, logp.message())) {
    state.place(task);
    report(options, done, graph);
  }
  return with_messages(graph, logp, state.runs());
}

Result<TaskSchedule> schedule_cpop(const TaskGraph& graph, const LogP& logp, int processors,
                                   const SchedulerOptions& options) {
  const Time delay = logp.message();
  const std::vector<TaskId> order = topological_order(graph);
  const std::vector<Time> up = upward_ranks(graph, order, delay);
  std::vector<Time> priority(graph.size(), 0);  // the downward rank first
  for (TaskId task : order) {
    for (TaskId before : graph.predecessors(task))
      priority[task] = std::max(priority[task], priority[before] + graph.weight(before) + delay);
  }
  Time longest = 0;
  for (TaskId task : order) longest = std::max(longest, priority[task] += up[task]);
  // One path of tasks whose priority is that of the whole graph; on equal processors it runs on
  // any one of them.
  std::vector<bool> critical(graph.size(), false);
  std::span<const TaskId> among = order;
  for (bool entry = true; !among.empty(); entry = false) {
    const auto next = std::find_if(among.begin(), among.end(), [&](TaskId task) {
      return priority[task] == longest && (!entry || graph.predecessors(task).empty());
    });
    if (next == among.end()) break;
    critical[*next] = true;
    among = graph.successors(*next);
  }
  EarliestFinish state(graph, delay, processors);
  int64_t done = 0;
  for (ReadyTasks ready(graph, priority); !ready.empty();) {
    const TaskId task = ready.pop();
    if (critical[task])
      state.place_on(task, 0);
    else
      state.place(task);
    report(options, done, graph);
  }
  return with_messages(graph, logp, state.runs());
}

Result<TaskSchedule> schedule_peft(const TaskGraph& graph, const LogP& logp, int processors,
                                   const SchedulerOptions& options) {
  // On equal processors the optimistic cost of a task is the same on all of them: its successors
  // stay where it runs, so it is the work on the heaviest path behind the task. What is added to
  // the finish time doesn't depend on the processor then.
  std::vector<Time> optimistic = bottom_levels(graph);
  for (TaskId task = 0; task < graph.size(); ++task) optimistic[task] -= graph.weight(task);
  EarliestFinish state(graph, logp.message(), processors);
  int64_t done = 0;
  for (ReadyTasks ready(graph, optimistic); !ready.empty();) {
    state.place(ready.pop());
    report(options, done, graph);
  }
  return with_messages(graph, logp, state.runs());
}

Result<TaskSchedule> schedule_etf(const TaskGraph& graph, const LogP& logp, int processors,
                                  const SchedulerOptions& options) {
  // Each step looks at all tasks that are ready.
  constexpr TaskId kMaxTasks = 20'000;
  if (graph.size() > kMaxTasks)
    return fail(ErrorCode::kUnsupported, "etf takes at most {} tasks, these are {}", kMaxTasks,
                graph.size());
  struct Candidate {
    TaskId task;
    Time anywhere = 0;     ///< when all inputs are there on any processor
    Time critical_at = 0;  ///< the same where the last of them is made
    ProcessorId critical = -1;
  };
  const Time delay = logp.message();
  const std::vector<Time> level = bottom_levels(graph);
  std::vector<Time> finish(graph.size(), 0), end(processors, 0);
  std::vector<ProcessorId> processor(graph.size(), -1);
  std::vector<int32_t> missing(graph.size());
  std::vector<Candidate> ready;
  const auto add = [&](TaskId task) {
    Candidate candidate{.task = task};
    TaskId last = -1;
    for (TaskId before : graph.predecessors(task)) {
      if (last < 0 || finish[before] > finish[last]) last = before;
    }
    if (last >= 0) {
      candidate.anywhere = finish[last] + delay;
      candidate.critical = processor[last];
      for (TaskId before : graph.predecessors(task))
        candidate.critical_at =
            std::max(candidate.critical_at,
                     finish[before] + (processor[before] == candidate.critical ? 0 : delay));
    }
    ready.push_back(candidate);
  };
  for (TaskId task = 0; task < graph.size(); ++task) {
    missing[task] = static_cast<int32_t>(graph.predecessors(task).size());
    if (missing[task] == 0) add(task);
  }
  ClassicSchedule runs(processors);
  for (int64_t done = 0; !ready.empty(); report(options, done, graph)) {
    // Elsewhere than at its critical processor, a task starts first where the work ends first.
    const auto first =
        static_cast<ProcessorId>(std::min_element(end.begin(), end.end()) - end.begin());
    size_t chosen = 0;
    ProcessorId where = -1;
    Time best = 0;
    const auto offer = [&](size_t i, ProcessorId p, Time start) {
      const TaskId task = ready[i].task, other = ready[chosen].task;
      const bool better = where < 0 || start < best ||
                          (start == best && (level[task] > level[other] ||
                                             (level[task] == level[other] && task < other)));
      if (!better) return;
      chosen = i;
      where = p;
      best = start;
    };
    for (size_t i = 0; i < ready.size(); ++i) {
      const Candidate& c = ready[i];
      if (c.critical >= 0) offer(i, c.critical, std::max(end[c.critical], c.critical_at));
      if (c.critical != first) offer(i, first, std::max(end[first], c.anywhere));
    }
    const TaskId task = ready[chosen].task;
    ready[chosen] = ready.back();
    ready.pop_back();
    processor[task] = where;
    finish[task] = end[where] = best + graph.weight(task);
    runs[where].push_back({best, task});
    for (TaskId after : graph.successors(task)) {
      if (--missing[after] == 0) add(after);
    }
  }
  return with_messages(graph, logp, runs);
}

}  // namespace ibcoll::task_graph
