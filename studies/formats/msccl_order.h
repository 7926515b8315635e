#pragma once
/// In which order the steps of an MSCCL program happen, whatever the timing.

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "studies/formats/msccl.h"

namespace ibcoll::formats {

/// A step, by its place in the program.
struct StepPlace {
  uint32_t rank = 0, block = 0, step = 0;
};

/// A half of a step: steps that receive and send do one after the other.
struct StepHalf {
  StepPlace at;
  bool sends = false;    ///< the half that sends; else the one that does all the rest
  uint32_t level = 0;    ///< messages that must have been sent before, one after the other
  uint32_t message = 0;  ///< where it sends or receives: the number of the message
  bool has_message = false;
};

/// Goes through all steps in one order that they may happen in, and knows of each which others have
/// happened before it in any order. A message happens before it is received; that queues between
/// ranks have ends, and who sends may have to wait, orders nothing.
class MscclOrder {
 public:
  /// Fails (kInput) where queues do not match, steps come after such as there are not, or no order
  /// is possible. The program must outlive it.
  static Result<MscclOrder> create(const MscclProgram& program);

  /// All halves in that order.
  const std::vector<StepHalf>& halves() const { return halves_; }
  uint32_t messages() const { return messages_; }

  /// To be called for each half in order, before anything is asked about it.
  void enter(const StepHalf& half);
  /// To be called when it is over.
  void leave(const StepHalf& half);
  /// Whether `step`, of the rank of the half that is being carried out, has surely happened.
  bool has_happened(const StepHalf& now, uint32_t block, uint32_t step) const;

 private:
  using Clock = std::vector<uint32_t>;  // by threadblock of all ranks: steps that have happened

  explicit MscclOrder(const MscclProgram& program) : program_(&program) {}
  Status match();
  Status sort();
  Status stuck(const std::vector<uint32_t>& waits) const;
  size_t block_index(uint32_t rank, uint32_t block) const { return first_block_[rank] + block; }
  size_t step_index(const StepPlace& at) const {
    return first_step_[block_index(at.rank, at.block)] + at.step;
  }
  const MscclStep& step(const StepPlace& at) const {
    return program_->gpus[at.rank].blocks[at.block].steps[at.step];
  }
  std::string name(const StepPlace& at) const {
    return describe_step(*program_, at.rank, at.block, at.step);
  }

  const MscclProgram* program_;
  std::vector<size_t> first_block_, first_step_;
  std::vector<StepPlace> steps_;           // all
  std::vector<int64_t> comes_after_;       // by step: the step it waits for; -1: none
  std::vector<uint32_t> sent_, received_;  // by step: the number of its message, or kNone
  uint32_t messages_ = 0;
  std::vector<StepHalf> halves_;

  std::vector<Clock> clocks_;                                       // by threadblock
  std::unordered_map<uint32_t, Clock> under_way_;                   // by message
  std::unordered_map<size_t, std::pair<Clock, uint32_t>> awaited_;  // by step; who comes after it
  std::vector<uint32_t> waiters_;  // by step: how many come after it
};

}  // namespace ibcoll::formats
