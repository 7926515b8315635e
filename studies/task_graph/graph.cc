#include "studies/task_graph/graph.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <queue>
#include <string>

namespace ibcoll::task_graph {

LogP paper_logp(int processors) {
  const Time beyond_two = std::clamp(processors, 2, 16) - 2;
  return {.send_overhead = 132 - 4 * beyond_two,
          .receive_overhead = 42 - beyond_two,
          .latency = 362 - 4 * beyond_two};
}

namespace {

/// A cycle among the tasks that a topological sort could not place: each task, then one that needs
/// its result; the first one needs that of the last.
std::vector<TaskId> find_cycle(const TaskGraph& graph,
                               const std::vector<int64_t>& unplaced_inputs) {
  TaskId at = 0;
  while (unplaced_inputs[at] == 0) ++at;
  // Every unplaced task has an unplaced predecessor, so walking backwards must come round.
  std::vector<int32_t> visited(graph.size(), -1);
  std::vector<TaskId> path;
  while (visited[at] < 0) {
    visited[at] = static_cast<int32_t>(path.size());
    path.push_back(at);
    for (TaskId before : graph.predecessors(at)) {
      if (unplaced_inputs[before] > 0) {
        at = before;
        break;
      }
    }
  }
  std::vector<TaskId> cycle(path.begin() + visited[at], path.end());
  std::reverse(cycle.begin() + 1, cycle.end());
  return cycle;
}

}  // namespace

Result<TaskGraph> TaskGraph::create(std::vector<Time> weights, const std::vector<Edge>& edges,
                                    const std::vector<int>& edge_lines,
                                    const std::vector<std::string_view>& names) {
  constexpr size_t kMaxTasks = size_t{1} << 30;
  if (weights.size() > kMaxTasks)
    return fail(ErrorCode::kInvalidArgument, "{} tasks: at most {}", weights.size(), kMaxTasks);
  const auto line_of = [&](size_t edge) {
    return edge < edge_lines.size() ? fmt::format("line {}: ", edge_lines[edge]) : std::string();
  };
  const auto name = [&](TaskId task) {
    return names.empty() ? std::to_string(task) : fmt::format("'{}'", names[task]);
  };
  TaskGraph graph;
  graph.weights_ = std::move(weights);
  const TaskId tasks = graph.size();
  for (TaskId task = 0; task < tasks; ++task) {
    const Time weight = graph.weights_[task];
    if (weight < 0)
      return fail(ErrorCode::kInvalidArgument, "task {} has the negative weight {}", name(task),
                  weight);
    if (weight > kMaxTotalWork - graph.total_work_)
      return fail(ErrorCode::kInvalidArgument, "the tasks weigh more than {} in all",
                  kMaxTotalWork);
    graph.total_work_ += weight;
  }
  std::vector<int64_t> first(tasks + 1, 0);
  for (size_t i = 0; i < edges.size(); ++i) {
    const auto [from, to] = edges[i];
    for (TaskId end : {from, to}) {
      if (end < 0 || end >= tasks)
        return fail(ErrorCode::kInvalidArgument, "{}edge {} -> {}: there is no task {} (tasks: {})",
                    line_of(i), from, to, end, tasks);
    }
    if (from == to)
      return fail(ErrorCode::kInvalidArgument, "{}task {} depends on itself", line_of(i),
                  name(from));
    ++first[to + 1];
  }
  for (TaskId task = 0; task < tasks; ++task) first[task + 1] += first[task];
  std::vector<TaskId> ends(edges.size());
  std::vector<int64_t> next(first.begin(), first.end() - 1);
  for (const Edge& edge : edges) ends[next[edge.to]++] = edge.from;

  graph.first_predecessor_.reserve(tasks + 1);
  graph.first_predecessor_.push_back(0);
  graph.predecessors_.reserve(ends.size());
  for (TaskId task = 0; task < tasks; ++task) {
    const auto begin = ends.begin() + first[task], end = ends.begin() + first[task + 1];
    std::sort(begin, end);
    graph.predecessors_.insert(graph.predecessors_.end(), begin, std::unique(begin, end));
    graph.first_predecessor_.push_back(static_cast<int64_t>(graph.predecessors_.size()));
  }
  graph.derive_successors();

  std::vector<int64_t> inputs(tasks);
  std::vector<TaskId> ready;
  for (TaskId task = 0; task < tasks; ++task) {
    inputs[task] = static_cast<int64_t>(graph.predecessors(task).size());
    if (inputs[task] == 0) ready.push_back(task);
  }
  TaskId placed = 0;
  while (!ready.empty()) {
    const TaskId task = ready.back();
    ready.pop_back();
    ++placed;
    for (TaskId after : graph.successors(task)) {
      if (--inputs[after] == 0) ready.push_back(after);
    }
  }
  if (placed < tasks) {
    const std::vector<TaskId> cycle = find_cycle(graph, inputs);
    const auto edge = std::find(edges.begin(), edges.end(), Edge{cycle[0], cycle[1]});
    constexpr size_t kShown = 8;
    std::string text = name(cycle.front());
    for (size_t i = 1; i < std::min(cycle.size(), kShown); ++i) text += " -> " + name(cycle[i]);
    text += cycle.size() > kShown ? " -> ..." : " -> " + name(cycle.front());
    return fail(ErrorCode::kInvalidArgument, "{}the graph has a cycle: {}",
                line_of(edge - edges.begin()), text);
  }
  return graph;
}

void TaskGraph::derive_successors() {
  const TaskId tasks = size();
  first_successor_.assign(tasks + 1, 0);
  for (TaskId before : predecessors_) ++first_successor_[before + 1];
  for (TaskId task = 0; task < tasks; ++task) first_successor_[task + 1] += first_successor_[task];
  successors_.resize(predecessors_.size());
  std::vector<int64_t> next(first_successor_.begin(), first_successor_.end() - 1);
  for (TaskId task = 0; task < tasks; ++task) {
    for (TaskId before : predecessors(task)) successors_[next[before]++] = task;
  }
}

TaskGraph::Builder::Builder(int64_t tasks, int64_t edges) {
  graph_.weights_.reserve(tasks);
  graph_.first_predecessor_.reserve(tasks + 1);
  graph_.predecessors_.reserve(edges);
  graph_.first_predecessor_.push_back(0);
}

TaskId TaskGraph::Builder::add(Time weight, std::initializer_list<TaskId> predecessors) {
  return add(weight, std::span<const TaskId>(predecessors.begin(), predecessors.size()));
}

TaskId TaskGraph::Builder::add(Time weight, std::span<const TaskId> predecessors) {
  assert(weight >= 0);
  const TaskId task = graph_.size();
  graph_.weights_.push_back(weight);
  graph_.total_work_ += weight;
  auto& all = graph_.predecessors_;
  const auto begin = static_cast<int64_t>(all.size());
  for (TaskId before : predecessors) {
    assert(before < task);
    if (before >= 0) all.push_back(before);
  }
  std::sort(all.begin() + begin, all.end());
  all.erase(std::unique(all.begin() + begin, all.end()), all.end());
  graph_.first_predecessor_.push_back(static_cast<int64_t>(all.size()));
  return task;
}

TaskGraph TaskGraph::Builder::finish() && {
  graph_.derive_successors();
  return std::move(graph_);
}

std::vector<TaskId> topological_order(const TaskGraph& graph) {
  std::vector<int32_t> inputs(graph.size());
  std::priority_queue<TaskId, std::vector<TaskId>, std::greater<>> ready;
  for (TaskId task = 0; task < graph.size(); ++task) {
    inputs[task] = static_cast<int32_t>(graph.predecessors(task).size());
    if (inputs[task] == 0) ready.push(task);
  }
  std::vector<TaskId> order;
  order.reserve(graph.size());
  while (!ready.empty()) {
    const TaskId task = ready.top();
    ready.pop();
    order.push_back(task);
    for (TaskId after : graph.successors(task)) {
      if (--inputs[after] == 0) ready.push(after);
    }
  }
  return order;
}

std::vector<int32_t> task_levels(const TaskGraph& graph) {
  std::vector<int32_t> level(graph.size(), 0);
  const std::vector<TaskId> order = topological_order(graph);
  for (auto task = order.rbegin(); task != order.rend(); ++task) {
    for (TaskId before : graph.predecessors(*task))
      level[before] = std::max(level[before], level[*task] + 1);
  }
  return level;
}

std::vector<Time> top_levels(const TaskGraph& graph) {
  std::vector<Time> level(graph.size(), 0);
  for (TaskId task : topological_order(graph)) {
    for (TaskId before : graph.predecessors(task))
      level[task] = std::max(level[task], level[before] + graph.weight(before));
  }
  return level;
}

std::vector<Time> bottom_levels(const TaskGraph& graph) {
  std::vector<Time> level(graph.size(), 0);
  const std::vector<TaskId> order = topological_order(graph);
  for (auto task = order.rbegin(); task != order.rend(); ++task) {
    level[*task] += graph.weight(*task);
    for (TaskId before : graph.predecessors(*task))
      level[before] = std::max(level[before], level[*task]);
  }
  return level;
}

Time critical_path(const TaskGraph& graph) {
  Time longest = 0;
  for (Time level : bottom_levels(graph)) longest = std::max(longest, level);
  return longest;
}

}  // namespace ibcoll::task_graph
