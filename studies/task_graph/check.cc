#include <algorithm>
#include <string>

#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

namespace {

using Kind = Instruction::Kind;

struct Ends {
  Time send = -1;
  Time receive = -1;
};

/// "processor 3, instruction 17 (run task 5 at 120)", the opening of every complaint.
std::string name(ProcessorId processor, size_t index, const Instruction& instruction) {
  const char* verb = instruction.kind == Kind::kRun    ? "run task"
                     : instruction.kind == Kind::kSend ? "send message"
                                                       : "receive message";
  return fmt::format("processor {}, instruction {} ({} {} at {})", processor, index, verb,
                     instruction.id, instruction.start);
}

Status check_messages(const TaskGraph& graph, const TaskSchedule& schedule) {
  const auto processors = static_cast<ProcessorId>(schedule.processors.size());
  for (size_t id = 0; id < schedule.messages.size(); ++id) {
    const PackedMessage& message = schedule.messages[id];
    for (ProcessorId end : {message.from, message.to}) {
      if (end < 0 || end >= processors)
        return fail(ErrorCode::kInvalidProgram, "message {}: there is no processor {}", id, end);
    }
    if (message.from == message.to)
      return fail(ErrorCode::kInvalidProgram, "message {}: processor {} sends to itself", id,
                  message.from);
    if (message.first < 0 || message.count < 0 ||
        message.first + message.count > static_cast<int64_t>(schedule.packed.size()))
      return fail(ErrorCode::kInvalidProgram, "message {}: its tasks are out of bounds", id);
    for (TaskId task : schedule.tasks(message)) {
      if (task < 0 || task >= graph.size())
        return fail(ErrorCode::kInvalidProgram, "message {}: there is no task {}", id, task);
    }
  }
  return {};
}

/// One processor on its own: one thing at a time, inputs present, messages sent and received once.
Status check_processor(const TaskGraph& graph, const TaskSchedule& schedule, ProcessorId processor,
                       std::vector<bool>& ran, std::vector<Ends>& ends) {
  std::vector<bool> held(graph.size(), false);
  Time free_at = 0;
  const auto& instructions = schedule.processors[processor];
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    const auto wrong = [&](const std::string& reason) {
      return fail(ErrorCode::kInvalidProgram, "{}: {}", name(processor, i, instruction), reason);
    };
    const int64_t limit = instruction.kind == Kind::kRun
                              ? graph.size()
                              : static_cast<int64_t>(schedule.messages.size());
    if (instruction.id < 0 || instruction.id >= limit) return wrong("there is no such id");
    if (instruction.start < free_at)
      return wrong(fmt::format("the processor is busy until {}", free_at));
    switch (instruction.kind) {
      case Kind::kRun:
        for (TaskId needed : graph.predecessors(instruction.id)) {
          if (!held[needed]) return wrong(fmt::format("the result of task {} is missing", needed));
        }
        held[instruction.id] = true;
        ran[instruction.id] = true;
        break;
      case Kind::kSend: {
        const PackedMessage& message = schedule.messages[instruction.id];
        if (message.from != processor)
          return wrong(fmt::format("processor {} is its sender", message.from));
        if (ends[instruction.id].send >= 0) return wrong("it is sent twice");
        for (TaskId task : schedule.tasks(message)) {
          if (!held[task]) return wrong(fmt::format("the result of task {} is not held", task));
        }
        ends[instruction.id].send = instruction.start;
        break;
      }
      case Kind::kReceive: {
        const PackedMessage& message = schedule.messages[instruction.id];
        if (message.to != processor)
          return wrong(fmt::format("processor {} is its receiver", message.to));
        if (ends[instruction.id].receive >= 0) return wrong("it is received twice");
        for (TaskId task : schedule.tasks(message)) held[task] = true;
        ends[instruction.id].receive = instruction.start;
        break;
      }
    }
    free_at = instruction.start + schedule.duration(graph, instruction);
  }
  return {};
}

}  // namespace

Status check(const TaskGraph& graph, const TaskSchedule& schedule) {
  if (schedule.processors.empty())
    return fail(ErrorCode::kInvalidProgram, "the schedule has no processor");
  const LogP& logp = schedule.logp;
  if (logp.send_overhead < 0 || logp.receive_overhead < 0 || logp.latency < 0 ||
      logp.per_result < 0)
    return fail(ErrorCode::kInvalidProgram, "negative LogP parameter (os {}, or {}, L {})",
                logp.send_overhead, logp.receive_overhead, logp.latency);
  IBCOLL_TRY(check_messages(graph, schedule));
  std::vector<bool> ran(graph.size(), false);
  std::vector<Ends> ends(schedule.messages.size());
  for (size_t p = 0; p < schedule.processors.size(); ++p)
    IBCOLL_TRY(check_processor(graph, schedule, static_cast<ProcessorId>(p), ran, ends));
  for (TaskId task = 0; task < graph.size(); ++task) {
    if (!ran[task]) return fail(ErrorCode::kInvalidProgram, "task {} never runs", task);
  }
  for (size_t id = 0; id < ends.size(); ++id) {
    if (ends[id].send < 0) return fail(ErrorCode::kInvalidProgram, "message {} is never sent", id);
    if (ends[id].receive < 0)
      return fail(ErrorCode::kInvalidProgram, "message {} is never received", id);
    const Time arrival = ends[id].send + logp.arrival(schedule.messages[id].count);
    if (ends[id].receive < arrival)
      return fail(ErrorCode::kInvalidProgram,
                  "message {} is received at {}, before it arrives at {}", id, ends[id].receive,
                  arrival);
  }
  // With overheads and latency of zero, equal times could hide a cycle of messages.
  TaskSchedule again = schedule;
  return replay(graph, again);
}

}  // namespace ibcoll::task_graph
