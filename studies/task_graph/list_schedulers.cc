/// HEFT, CPOP, PEFT and ETF on the classic model.

#include <algorithm>
#include <queue>
#include <span>

#include "studies/task_graph/list_schedulers.h"

namespace ibcoll::task_graph {

namespace {

constexpr int64_t kReportEvery = 65536;

/// Makes a schedule for equal processors by one of the functions plan_*.
template <class MakeSchedule>
TaskSchedule planned(MakeSchedule plan, const TaskGraph& graph, const LogP& logp, int processors,
                     const SchedulerOptions& options) {
  const Costs costs{every_edge(logp.message())};
  return with_messages(
      graph, logp,
      plan(graph, costs, processors, reporting(options, "earliest finish", graph, kReportEvery)));
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

ClassicSchedule plan_heft(const TaskGraph& graph, const Costs& costs, int processors,
                          const Placed& placed) {
  EarliestFinish state(graph, costs, processors);
  int64_t done = 0;
  for (TaskId task : by_upward_rank(graph, costs.delay)) {
    state.place(task);
    if (placed) placed(++done);
  }
  return state.runs();
}

ClassicSchedule plan_cpop(const TaskGraph& graph, const Costs& costs, int processors,
                          const Placed& placed) {
  const std::vector<TaskId> order = topological_order(graph);
  const std::vector<Time> up = upward_ranks(graph, order, costs.delay);
  std::vector<Time> priority = downward_ranks(graph, order, costs.delay);
  Time longest = 0;
  for (TaskId task : order) longest = std::max(longest, priority[task] += up[task]);
  // One path of tasks whose priority is that of the whole graph.
  std::vector<bool> critical(graph.size(), false);
  std::vector<Time> path_takes(processors, 0);
  std::span<const TaskId> among = order;
  for (bool entry = true; !among.empty(); entry = false) {
    const auto next = std::find_if(among.begin(), among.end(), [&](TaskId task) {
      return priority[task] == longest && (!entry || graph.predecessors(task).empty());
    });
    if (next == among.end()) break;
    critical[*next] = true;
    if (!costs.run_times.empty()) {
      for (ProcessorId p = 0; p < processors; ++p) path_takes[p] += costs.run_times[*next][p];
    }
    among = graph.successors(*next);
  }
  const auto fastest = static_cast<ProcessorId>(
      std::min_element(path_takes.begin(), path_takes.end()) - path_takes.begin());
  EarliestFinish state(graph, costs, processors);
  int64_t done = 0;
  for (ReadyTasks ready(graph, priority); !ready.empty();) {
    const TaskId task = ready.pop();
    if (critical[task])
      state.place_on(task, fastest);
    else
      state.place(task);
    if (placed) placed(++done);
  }
  return state.runs();
}

ClassicSchedule plan_peft(const TaskGraph& graph, const Costs& costs, int processors,
                          const Placed& placed) {
  // On equal processors costs are equal, too, and one column of the table stands for all.
  const size_t columns = costs.run_times.empty() ? 1 : static_cast<size_t>(processors);
  std::vector<Time> table(static_cast<size_t>(graph.size()) * columns, 0);
  const auto row = [&](TaskId task) {
    return std::span(table).subspan(static_cast<size_t>(task) * columns, columns);
  };
  const std::vector<TaskId> order = topological_order(graph);
  std::vector<Time> best(columns), priority(graph.size(), 0);
  for (auto task = order.rbegin(); task != order.rend(); ++task) {
    const std::span<Time> cost = row(*task);
    for (TaskId after : graph.successors(*task)) {
      for (size_t p = 0; p < columns; ++p)
        best[p] = row(after)[p] +
                  (costs.run_times.empty() ? graph.weight(after) : costs.run_times[after][p]);
      const Time elsewhere =
          *std::min_element(best.begin(), best.end()) + costs.delay(*task, after);
      for (size_t p = 0; p < columns; ++p)
        cost[p] = std::max(cost[p], std::min(best[p], elsewhere));
    }
    // The sum, which orders tasks as the mean does.
    for (const Time at : cost) priority[*task] += at;
  }
  EarliestFinish state(graph, costs, processors);
  int64_t done = 0;
  for (ReadyTasks ready(graph, priority); !ready.empty();) {
    const TaskId task = ready.pop();
    state.place(task, columns > 1 ? row(task) : std::span<Time>());
    if (placed) placed(++done);
  }
  return state.runs();
}

Result<TaskSchedule> schedule_heft(const TaskGraph& graph, const LogP& logp, int processors,
                                   const SchedulerOptions& options) {
  return planned(plan_heft, graph, logp, processors, options);
}

Result<TaskSchedule> schedule_cpop(const TaskGraph& graph, const LogP& logp, int processors,
                                   const SchedulerOptions& options) {
  return planned(plan_cpop, graph, logp, processors, options);
}

Result<TaskSchedule> schedule_peft(const TaskGraph& graph, const LogP& logp, int processors,
                                   const SchedulerOptions& options) {
  return planned(plan_peft, graph, logp, processors, options);
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
  const Placed placed = reporting(options, "earliest start", graph, kReportEvery);
  for (int64_t done = 1; !ready.empty(); placed(done++)) {
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
