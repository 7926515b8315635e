#pragma once
/// One processor of a schedule made ready to run: tasks read and write numbered slots instead of an
/// array over the whole graph, and a slot is used again once its result has had its last reader.
/// What a processor touches then stays as small as what it holds at a time, whatever the order of
/// its tasks, so that a task costs about the same everywhere: what the model of a unit a task asks.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

/// A task as its bodies want it; the words are theirs to fill.
using TaskOperation = std::array<int32_t, 4>;

/// A computation cut into tasks that each make one number.
class TaskBodies {
 public:
  virtual ~TaskBodies() = default;
  /// Numbers that everybody holds from the start: slots 0 .. inputs().size() - 1.
  virtual std::span<const double> inputs() const = 0;
  /// The operation that puts the result of `task` in slot `result`; slot_of[t] is where the result
  /// of each predecessor t lies. The slot of an operand may be that of the result.
  virtual TaskOperation compile(TaskId task, int32_t result,
                                std::span<const int32_t> slot_of) const = 0;
  /// Runs compiled operations in order.
  virtual void run(std::span<const TaskOperation> operations, double* slots) const = 0;
};

/// What a processor does, in order.
class ProcessorProgram {
 public:
  /// Compiles processor p of a schedule that check() lets pass. Slots of the tasks in `kept` are
  /// not used again: their results are there when the program ends. `bodies` must outlive the
  /// program.
  ProcessorProgram(const TaskGraph& graph, const TaskSchedule& schedule, ProcessorId p,
                   const TaskBodies& bodies, std::span<const TaskId> kept);

  /// A stretch of tasks, or a message with the slots of its results.
  struct Step {
    Instruction::Kind kind;
    MessageId message;   ///< unless kind is kRun
    size_t first, last;  ///< of the operations or of the message's slots
  };
  const std::vector<Step>& steps() const { return steps_; }
  std::span<const int32_t> slots_of(const Step& message) const {
    return {message_slots_.data() + message.first, message.last - message.first};
  }
  void run(const Step& tasks, double* slots) const {
    bodies_.run({operations_.data() + tasks.first, tasks.last - tasks.first}, slots);
  }
  int64_t operations() const { return static_cast<int64_t>(operations_.size()); }
  /// Makes room for the results and puts the inputs in place; the rest isn't a number yet.
  void fill_slots(std::vector<double>& slots) const;
  /// Where the result of a kept task lies; -1 if this processor doesn't run it.
  int32_t slot_of_kept(size_t index) const { return kept_slots_[index]; }

 private:
  const TaskBodies& bodies_;
  std::vector<Step> steps_;
  std::vector<TaskOperation> operations_;
  std::vector<int32_t> message_slots_;
  std::vector<int32_t> kept_slots_;
  int32_t slots_ = 0;
};

}  // namespace ibcoll::task_graph
