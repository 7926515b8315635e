#pragma once
/// Schedules of task graphs: for every processor an order of run, send and receive instructions
/// with start times, where one message carries the results of any number of tasks (packaging) and
/// a task may run on several processors (duplication). SCH = (TASK, COMM) of the paper, section 6.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "studies/task_graph/graph.h"

namespace ibcoll::task_graph {

using MessageId = int32_t;

struct Instruction {
  enum class Kind : uint8_t { kRun, kSend, kReceive };
  Time start;
  int32_t id;  ///< the task to run or the message to send or receive
  Kind kind;
};

/// The results that one send packs.
struct PackedMessage {
  ProcessorId from;
  ProcessorId to;
  int64_t first;  ///< its tasks are [first, first + count) of TaskSchedule::packed
  int64_t count;
};

/// What each processor does. A plain value; check() says whether it makes sense.
struct TaskSchedule {
  LogP logp;
  std::vector<std::vector<Instruction>> processors;
  std::vector<PackedMessage> messages;
  std::vector<TaskId> packed;

  explicit TaskSchedule(int processor_count = 0, LogP costs = {})
      : logp(costs), processors(processor_count) {}
  std::span<const TaskId> tasks(const PackedMessage& message) const {
    return {packed.data() + message.first, static_cast<size_t>(message.count)};
  }
  /// Adds a message; the caller adds its send and its receive.
  MessageId add_message(ProcessorId from, ProcessorId to, std::span<const TaskId> tasks);
  Time duration(const TaskGraph& graph, const Instruction& instruction) const;
};

/// The extended makespan: when the last instruction ends.
Time makespan(const TaskGraph& graph, const TaskSchedule& schedule);

/// Gives every instruction the earliest start that its processor's order and the arrival of its
/// messages allow; what a run that never waits on purpose would take. Fails when the orders
/// deadlock, naming who waits for what.
Status replay(const TaskGraph& graph, TaskSchedule& schedule);

/// Figures of the paper's evaluation (section 9.2), in the unit of time of the graph.
struct Statistics {
  Time makespan = 0;
  int64_t messages = 0;
  int64_t packed_results = 0;  ///< summed over messages
  int64_t duplicates = 0;      ///< runs beyond the first of each task
  Time overhead = 0;           ///< send and receive overheads, all processors
  Time overlap = 0;            ///< work between two consecutive sends of a processor
  int used_processors = 0;     ///< those that run a task
  double usage = 0;            ///< (makespan * P - idle) / (makespan * P)
  double speedup = 0;          ///< Sm: work on one processor / makespan; 0 when both are 0
};
Statistics statistics(const TaskGraph& graph, const TaskSchedule& schedule);

/// Proves a schedule: every task runs; a processor does one thing at a time, for as long as it
/// takes; a task runs only where all its inputs are held by then, and a send packs only results
/// held; each message is sent once by its sender and received once by its receiver, not before it
/// arrives (start of send + os + L); the orders can't deadlock. Knows nothing of how schedules are
/// made. The error names the first instruction that is wrong.
Status check(const TaskGraph& graph, const TaskSchedule& schedule);

}  // namespace ibcoll::task_graph
