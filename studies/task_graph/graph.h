#pragma once
/// Task graphs: weighted tasks and the precedence between them, and the LogP costs of a message.

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll::task_graph {

using TaskId = int32_t;
using ProcessorId = int32_t;
/// Time and work in one unit of the user's choice: assignment statements in the paper,
/// nanoseconds in real runs.
using Time = int64_t;

/// Most work a graph may hold in all, so that no sum or makespan overflows.
inline constexpr Time kMaxTotalWork = Time{1} << 52;

/// Most processors of a schedule, and most that a LogP parameter may be: the same for files,
/// options and callers.
inline constexpr int kMaxProcessors = 4096;
inline constexpr Time kMaxCost = Time{1} << 40;

/// What a message costs (Culler et al., LogP, with the overheads of the two ends apart): the sender
/// is busy for `send_overhead`, the message travels for `latency`, the receiver is busy for
/// `receive_overhead`. The gap g is left out because both overheads exceed it.
struct LogP {
  Time send_overhead = 0;
  Time receive_overhead = 0;
  Time latency = 0;
  /// LogGP's bandwidth term: each result in a message adds so much to its travel time. 0: a message
  /// costs the same whatever its size, as in the paper.
  Time per_result = 0;

  /// From the start of a send of `results` results until it can be received.
  Time arrival(int64_t results) const { return send_overhead + latency + results * per_result; }
  /// From the start of a send of one result to the end of its receive when nobody waits.
  Time message() const { return arrival(1) + receive_overhead; }
  bool operator==(const LogP&) const = default;
};

/// Table 1 of the paper: os = 132 - 4(P-2), or = 42 - (P-2), L = 362 - 4(P-2) in assignment
/// statements, for P = 2..16; under 2 the values of 2, over 16 those of 16.
LogP paper_logp(int processors);

/// One precedence: `to` needs the result of `from`.
struct Edge {
  TaskId from;
  TaskId to;
  bool operator==(const Edge&) const = default;
};

/// A directed acyclic graph of tasks 0..size()-1. Immutable; predecessors and successors ascend.
class TaskGraph {
 public:
  /// Refuses negative weights, more than kMaxTotalWork in all, edges to tasks that aren't there and
  /// cycles (the error names the tasks of one). Double edges count once. For errors: the line of a
  /// file where each edge stands, and what the file calls each task, if not by its number.
  static Result<TaskGraph> create(std::vector<Time> weights, const std::vector<Edge>& edges,
                                  const std::vector<int>& edge_lines = {},
                                  const std::vector<std::string_view>& names = {});

  /// Builds a graph whose tasks come in topological order.
  class Builder;

  TaskId size() const { return static_cast<TaskId>(weights_.size()); }
  int64_t edges() const { return static_cast<int64_t>(predecessors_.size()); }
  Time weight(TaskId task) const { return weights_[task]; }
  std::span<const TaskId> predecessors(TaskId task) const {
    return {predecessors_.data() + first_predecessor_[task],
            predecessors_.data() + first_predecessor_[task + 1]};
  }
  std::span<const TaskId> successors(TaskId task) const {
    return {successors_.data() + first_successor_[task],
            successors_.data() + first_successor_[task + 1]};
  }
  /// The makespan on one processor.
  Time total_work() const { return total_work_; }

 private:
  TaskGraph() = default;
  void derive_successors();

  std::vector<Time> weights_;
  std::vector<int64_t> first_predecessor_;
  std::vector<TaskId> predecessors_;
  std::vector<int64_t> first_successor_;
  std::vector<TaskId> successors_;
  Time total_work_ = 0;
};

/// Builds a graph whose tasks come in topological order: no sorting, no cycle to look for.
class TaskGraph::Builder {
 public:
  /// Reserves room; the counts may be guesses.
  Builder(int64_t tasks, int64_t edges);
  /// Adds a task that needs earlier tasks; negative ids ("an input everybody holds") and repeated
  /// ones are skipped.
  TaskId add(Time weight, std::initializer_list<TaskId> predecessors);
  TaskId add(Time weight, std::span<const TaskId> predecessors);
  TaskGraph finish() &&;

 private:
  TaskGraph graph_;
};

/// All tasks, each after its predecessors; among the ready ones the lowest id first.
std::vector<TaskId> topological_order(const TaskGraph& graph);

/// Tlv: number of edges on the longest path from each task to a sink (paper, section 7.1).
std::vector<int32_t> task_levels(const TaskGraph& graph);

/// Work on the heaviest path to each task, itself not included.
std::vector<Time> top_levels(const TaskGraph& graph);

/// Work on the heaviest path from each task, itself included, to a sink.
std::vector<Time> bottom_levels(const TaskGraph& graph);

/// Work on the heaviest path of the graph: no schedule is shorter.
Time critical_path(const TaskGraph& graph);

}  // namespace ibcoll::task_graph
