#include "studies/task_graph/schedule.h"

#include <algorithm>

namespace ibcoll::task_graph {

using Kind = Instruction::Kind;

MessageId TaskSchedule::add_message(ProcessorId from, ProcessorId to,
                                    std::span<const TaskId> tasks) {
  messages.push_back(
      {from, to, static_cast<int64_t>(packed.size()), static_cast<int64_t>(tasks.size())});
  packed.insert(packed.end(), tasks.begin(), tasks.end());
  return static_cast<MessageId>(messages.size() - 1);
}

Time TaskSchedule::duration(const TaskGraph& graph, const Instruction& instruction) const {
  switch (instruction.kind) {
    case Kind::kRun:
      return graph.weight(instruction.id);
    case Kind::kSend:
      return logp.send_overhead;
    case Kind::kReceive:
      return logp.receive_overhead;
  }
  return 0;
}

Time makespan(const TaskGraph& graph, const TaskSchedule& schedule) {
  Time end = 0;
  for (const auto& instructions : schedule.processors) {
    for (const Instruction& instruction : instructions)
      end = std::max(end, instruction.start + schedule.duration(graph, instruction));
  }
  return end;
}

Status replay(const TaskGraph& graph, TaskSchedule& schedule) {
  constexpr Time kNotSent = -1;
  const auto processors = static_cast<ProcessorId>(schedule.processors.size());
  std::vector<Time> arrival(schedule.messages.size(), kNotSent);
  std::vector<size_t> next(processors, 0);
  std::vector<Time> clock(processors, 0);
  std::vector<ProcessorId> runnable;
  for (ProcessorId p = processors; p-- > 0;) runnable.push_back(p);
  std::vector<bool> waiting(processors, false);
  while (!runnable.empty()) {
    const ProcessorId p = runnable.back();
    runnable.pop_back();
    auto& instructions = schedule.processors[p];
    for (; next[p] < instructions.size(); ++next[p]) {
      Instruction& instruction = instructions[next[p]];
      if (instruction.kind == Kind::kReceive) {
        if (arrival[instruction.id] == kNotSent) {
          waiting[p] = true;
          break;
        }
        clock[p] = std::max(clock[p], arrival[instruction.id]);
      }
      instruction.start = clock[p];
      clock[p] += schedule.duration(graph, instruction);
      if (instruction.kind == Kind::kSend) {
        const auto& [from, to, first, count] = schedule.messages[instruction.id];
        arrival[instruction.id] = instruction.start + schedule.logp.arrival(count);
        if (waiting[to]) {
          waiting[to] = false;
          runnable.push_back(to);
        }
      }
    }
  }
  for (ProcessorId p = 0; p < processors; ++p) {
    if (next[p] < schedule.processors[p].size()) {
      const MessageId id = schedule.processors[p][next[p]].id;
      return fail(ErrorCode::kInvalidProgram,
                  "processor {} waits for ever for message {} from processor {} (instruction {})",
                  p, id, schedule.messages[id].from, next[p]);
    }
  }
  return {};
}

Statistics statistics(const TaskGraph& graph, const TaskSchedule& schedule) {
  Statistics result;
  result.makespan = makespan(graph, schedule);
  result.messages = static_cast<int64_t>(schedule.messages.size());
  result.packed_results = static_cast<int64_t>(schedule.packed.size());
  std::vector<bool> ran(graph.size(), false);
  Time busy = 0;
  for (const auto& instructions : schedule.processors) {
    bool sent = false, used = false;
    Time since_send = 0;
    for (const Instruction& instruction : instructions) {
      const Time duration = schedule.duration(graph, instruction);
      busy += duration;
      if (instruction.kind == Kind::kRun) {
        used = true;
        since_send += duration;
        if (ran[instruction.id]) ++result.duplicates;
        ran[instruction.id] = true;
        continue;
      }
      result.overhead += duration;
      if (instruction.kind == Kind::kSend) {
        if (sent) result.overlap += since_send;
        sent = true;
        since_send = 0;
      }
    }
    result.used_processors += used ? 1 : 0;
  }
  if (result.makespan > 0) {
    result.usage = static_cast<double>(busy) / (static_cast<double>(result.makespan) *
                                                static_cast<double>(schedule.processors.size()));
    result.speedup = static_cast<double>(graph.total_work()) / static_cast<double>(result.makespan);
  }
  return result;
}

}  // namespace ibcoll::task_graph
