#include "studies/task_graph/run/processor_program.h"

#include <algorithm>
#include <limits>

namespace ibcoll::task_graph {

namespace {

using Kind = Instruction::Kind;

constexpr int32_t kNowhere = -1;

/// Hands out slots, those given back last first: they are still in the cache.
class FreeSlots {
 public:
  explicit FreeSlots(int32_t first) : next_(first) {}
  int32_t take() {
    if (free_.empty()) return next_++;
    const int32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(int32_t slot) { free_.push_back(slot); }
  int32_t used() const { return next_; }

 private:
  int32_t next_;
  std::vector<int32_t> free_;
};

/// The results an instruction reads.
std::span<const TaskId> reads(const TaskGraph& graph, const TaskSchedule& schedule,
                              const Instruction& instruction) {
  if (instruction.kind == Kind::kRun) return graph.predecessors(instruction.id);
  if (instruction.kind == Kind::kSend) return schedule.tasks(schedule.messages[instruction.id]);
  return {};
}

}  // namespace

ProcessorProgram::ProcessorProgram(const TaskGraph& graph, const TaskSchedule& schedule,
                                   ProcessorId p, const TaskBodies& bodies,
                                   std::span<const TaskId> kept)
    : bodies_(bodies), kept_slots_(kept.size(), kNowhere) {
  const auto& instructions = schedule.processors[p];
  constexpr size_t kNever = 0, kKept = std::numeric_limits<size_t>::max();
  std::vector<size_t> last_read(graph.size(), kNever);  // by task: the instruction, from 1
  for (size_t i = 0; i < instructions.size(); ++i) {
    for (TaskId task : reads(graph, schedule, instructions[i])) last_read[task] = i + 1;
  }
  for (TaskId task : kept) last_read[task] = kKept;

  FreeSlots free(static_cast<int32_t>(bodies.inputs().size()));
  std::vector<int32_t> slot_of(graph.size(), kNowhere);
  const auto let_go = [&](TaskId task, size_t read) {
    if (last_read[task] > read || slot_of[task] == kNowhere) return;
    free.give_back(slot_of[task]);
    slot_of[task] = kNowhere;
  };
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    if (instruction.kind == Kind::kRun) {
      if (steps_.empty() || steps_.back().kind != Kind::kRun)
        steps_.push_back({Kind::kRun, -1, operations_.size(), operations_.size()});
      const TaskId task = instruction.id;
      TaskId replaced = -1;  // an operand that isn't read again: its slot takes the result
      if (slot_of[task] == kNowhere) {
        for (TaskId operand : graph.predecessors(task)) {
          if (last_read[operand] == i + 1) replaced = operand;
        }
        slot_of[task] = replaced >= 0 ? slot_of[replaced] : free.take();
      }
      operations_.push_back(bodies.compile(task, slot_of[task], slot_of));
      if (replaced >= 0) slot_of[replaced] = kNowhere;
      for (TaskId operand : graph.predecessors(task)) let_go(operand, i + 1);
      steps_.back().last = operations_.size();
      let_go(task, i + 1);
      continue;
    }
    const auto tasks = schedule.tasks(schedule.messages[instruction.id]);
    const size_t first = message_slots_.size();
    for (TaskId task : tasks) {
      if (slot_of[task] == kNowhere) slot_of[task] = free.take();  // a receive
      message_slots_.push_back(slot_of[task]);
    }
    for (TaskId task : tasks) let_go(task, i + 1);
    steps_.push_back({instruction.kind, instruction.id, first, message_slots_.size()});
  }
  std::vector<bool> ran(graph.size(), false);
  for (const Instruction& instruction : instructions) {
    if (instruction.kind == Kind::kRun) ran[instruction.id] = true;
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    if (ran[kept[i]]) kept_slots_[i] = slot_of[kept[i]];
  }
  slots_ = free.used();
}

void ProcessorProgram::fill_slots(std::vector<double>& slots) const {
  slots.assign(static_cast<size_t>(slots_), std::numeric_limits<double>::quiet_NaN());
  std::ranges::copy(bodies_.inputs(), slots.begin());
}

}  // namespace ibcoll::task_graph
