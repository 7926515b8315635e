#include "studies/task_graph/list_scheduling.h"

#include <algorithm>

namespace ibcoll::task_graph {

std::vector<Time> upward_ranks(const TaskGraph& graph, const std::vector<TaskId>& topological,
                               const EdgeDelay& delay) {
  std::vector<Time> rank(graph.size(), 0);
  for (auto task = topological.rbegin(); task != topological.rend(); ++task) {
    for (TaskId after : graph.successors(*task))
      rank[*task] = std::max(rank[*task], delay(*task, after) + rank[after]);
    rank[*task] += graph.weight(*task);
  }
  return rank;
}

std::vector<Time> downward_ranks(const TaskGraph& graph, const std::vector<TaskId>& topological,
                                 const EdgeDelay& delay) {
  std::vector<Time> rank(graph.size(), 0);
  for (TaskId task : topological) {
    for (TaskId before : graph.predecessors(task))
      rank[task] = std::max(rank[task], rank[before] + graph.weight(before) + delay(before, task));
  }
  return rank;
}

std::vector<TaskId> by_upward_rank(const TaskGraph& graph, const EdgeDelay& delay) {
  std::vector<TaskId> order = topological_order(graph);
  const std::vector<Time> rank = upward_ranks(graph, order, delay);
  std::stable_sort(order.begin(), order.end(),
                   [&](TaskId a, TaskId b) { return rank[a] > rank[b]; });
  return order;
}

Placed reporting(const SchedulerOptions& options, const char* stage, const TaskGraph& graph,
                 int64_t every) {
  if (!options.progress) return [](int64_t) {};
  return [&options, stage, all = graph.size(), every](int64_t done) {
    if (done % every == 0) options.progress(stage, done, all);
  };
}

EarliestFinish::EarliestFinish(const TaskGraph& graph, const Costs& costs, int processors)
    : graph_(graph),
      costs_(costs),
      slots_(processors),
      finish_(graph.size(), 0),
      processor_(graph.size(), -1),
      runs_(processors) {}

EarliestFinish::Ready EarliestFinish::ready(TaskId task) const {
  Ready result;
  Time but_one = 0;
  for (TaskId before : graph_.predecessors(task)) {
    const Time arrival = finish_[before] + costs_.delay(before, task);
    if (arrival > result.anywhere) {
      if (processor_[before] != result.critical) but_one = result.anywhere;
      result.anywhere = arrival;
      result.critical = processor_[before];
    } else if (processor_[before] != result.critical) {
      but_one = std::max(but_one, arrival);
    }
  }
  result.critical_at = but_one;
  for (TaskId before : graph_.predecessors(task)) {
    if (processor_[before] == result.critical)
      result.critical_at = std::max(result.critical_at, finish_[before]);
  }
  return result;
}

void EarliestFinish::place(TaskId task, std::span<const Time> still_to_come) {
  const Ready at = ready(task);
  Time best = std::numeric_limits<Time>::max(), start_there = 0;
  ProcessorId chosen = 0;
  for (ProcessorId p = 0; p < static_cast<ProcessorId>(slots_.size()); ++p) {
    const Time length = run_time(task, p);
    const Time start = slots_[p].earliest(at.on(p), length);
    const Time end = start + length + (still_to_come.empty() ? 0 : still_to_come[p]);
    if (end >= best) continue;
    best = end;
    start_there = start;
    chosen = p;
  }
  take(task, chosen, start_there);
}

void EarliestFinish::place_on(TaskId task, ProcessorId processor) {
  take(task, processor,
       slots_[processor].earliest(ready(task).on(processor), run_time(task, processor)));
}

void EarliestFinish::take(TaskId task, ProcessorId processor, Time start) {
  const Time length = run_time(task, processor);
  slots_[processor].take(start, length);
  processor_[task] = processor;
  finish_[task] = start + length;
  runs_[processor].push_back({start, task});
}

Status refuse_many_copies(const TaskGraph& graph, int processors, const SchedulerOptions& options,
                          const char* name) {
  const int64_t copies = int64_t{graph.size()} * processors;
  if (copies <= options.max_copies) return {};
  return fail(ErrorCode::kUnsupported, "{} takes at most {} tasks times processors, these are {}",
              name, options.max_copies, copies);
}

}  // namespace ibcoll::task_graph
