#include "studies/task_graph/list_scheduling.h"

#include <algorithm>

namespace ibcoll::task_graph {

std::vector<Time> upward_ranks(const TaskGraph& graph, const std::vector<TaskId>& order,
                               Time delay) {
  std::vector<Time> rank(graph.size(), 0);
  for (auto task = order.rbegin(); task != order.rend(); ++task) {
    for (TaskId after : graph.successors(*task))
      rank[*task] = std::max(rank[*task], delay + rank[after]);
    rank[*task] += graph.weight(*task);
  }
  return rank;
}

std::vector<TaskId> by_upward_rank(const TaskGraph& graph, Time delay) {
  std::vector<TaskId> order = topological_order(graph);
  const std::vector<Time> rank = upward_ranks(graph, order, delay);
  std::stable_sort(order.begin(), order.end(),
                   [&](TaskId a, TaskId b) { return rank[a] > rank[b]; });
  return order;
}

EarliestFinish::EarliestFinish(const TaskGraph& graph, Time delay, int processors)
    : graph_(graph),
      delay_(delay),
      slots_(processors),
      finish_(graph.size(), 0),
      processor_(graph.size(), -1),
      runs_(processors) {}

EarliestFinish::Ready EarliestFinish::ready(TaskId task) const {
  Ready result;
  Time but_one = 0;
  for (TaskId before : graph_.predecessors(task)) {
    const Time arrival = finish_[before] + delay_;
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

void EarliestFinish::place(TaskId task) {
  const Ready at = ready(task);
  Time best = std::numeric_limits<Time>::max();
  ProcessorId chosen = 0;
  for (ProcessorId p = 0; p < static_cast<ProcessorId>(slots_.size()); ++p) {
    const Time start = slots_[p].earliest(at.on(p), graph_.weight(task));
    if (start >= best) continue;
    best = start;
    chosen = p;
  }
  take(task, chosen, best);
}

void EarliestFinish::place_on(TaskId task, ProcessorId processor) {
  take(task, processor, slots_[processor].earliest(ready(task).on(processor), graph_.weight(task)));
}

void EarliestFinish::take(TaskId task, ProcessorId processor, Time start) {
  slots_[processor].take(start, graph_.weight(task));
  processor_[task] = processor;
  finish_[task] = start + graph_.weight(task);
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
