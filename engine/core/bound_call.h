#pragma once
/// A call that is ready to be made: the program that its arguments have chosen, bound to buffers
/// and to the memory that it works in.

#include <cstdint>
#include <memory>

#include "engine/base/clock.h"
#include "engine/core/call_arguments.h"
#include "engine/core/call_blocks.h"
#include "engine/core/call_slots.h"
#include "engine/core/group.h"
#include "engine/core/lengths_phase.h"
#include "engine/execute/short_program.h"

namespace ibcoll {

/// Bound and released again and again: programs repeat their calls, and what stays the same from
/// one to the next is not told anew.
class BoundCall {
 public:
  /// The group must outlive it.
  explicit BoundCall(Group& group) : group_(group), slots_(group) {}
  ~BoundCall() { release(); }
  BoundCall(const BoundCall&) = delete;
  BoundCall& operator=(const BoundCall&) = delete;

  /// Chooses the program for arguments that have been checked, and takes the memory; what was bound
  /// before has been released. Local. What it has taken before it fails release() gives back.
  Status bind(const CallArguments& arguments);
  /// Whether release() has something to give back.
  bool holds_anything() const {
    return slots_.has_memory() || lengths_.has_memory() || has_blocks_ ||
           arguments_.keeps != nullptr;
  }
  /// Gives the memory back.
  void release() {
    if (holds_anything()) [[unlikely]]
      give_back();
  }

  /// For each start of the call: its time begins, and what other data is to land on is copied.
  void begin() {
    if (aside() != nullptr) [[unlikely]]
      slots_.copy_aside(arguments_, has_blocks_ ? blocks_.get() : nullptr);
    if (has_blocks_) [[unlikely]]
      blocks_->start();
    else if (!asks_lengths()) [[likely]]  // those that it brings differ from call to call
      short_.use(group_.state(), *plan_.program, binding_);
    binding_.time_limit_ns = arguments_.time_limit_ns;
    binding_.deadline_ns = arguments_.time_limit_ns == 0 ? 0 : now_ns() + arguments_.time_limit_ns;
  }

  /// Whether a phase of lengths is to come before the data.
  bool asks_lengths() const { return lengths_.is_due(); }
  /// What program() is bound to in that phase.
  Binding bind_lengths() { return lengths_.bind(group_.shape(), plan_, binding_); }
  /// That phase has ended: binds the slots whose lengths it has brought. Ends the job where these
  /// are not what this rank expects.
  Status take_lengths();

  const CallArguments& arguments() const { return arguments_; }
  /// What bind() has chosen.
  const CallPlan& plan() const { return plan_; }
  const RankProgram& program() const { return *plan_.program; }
  /// The same as a list; null: there is none.
  const ShortProgram* short_program() const {
    return has_blocks_ || short_.ops().empty() ? nullptr : &short_;
  }
  const Binding& binding() const { return binding_; }
  /// What Binding::told points to.
  const CallMeaning& meaning() const { return meaning_; }
  /// Where data that is sent in place has been copied to; null: it is read where it lies.
  const std::byte* aside() const { return slots_.aside(); }

 private:
  void take_blocks();
  void tell_meaning(uint64_t block_bytes);
  Status bind_blocks();
  void give_back();

  Group& group_;
  CallArguments arguments_;
  CallPlan plan_;
  Binding binding_;
  CallMeaning meaning_;
  ShortProgram short_;
  uint64_t reduction_ = 0;  ///< in meaning_
  CallSlots slots_;
  LengthsPhase lengths_;
  std::unique_ptr<CallBlocks> blocks_;  ///< null: no call so far had blocks of its own layout
  bool has_blocks_ = false;             ///< this one has
};

}  // namespace ibcoll
