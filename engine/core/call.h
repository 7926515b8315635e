#pragma once
/// One collective call from its arguments to its end. Blocking, nonblocking and persistent calls
/// are all made of it.

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/core/bound_call.h"
#include "engine/core/call_check.h"

namespace ibcoll {

/// Prepares a call, and takes it through its phases: most have one, the data; where all ranks must
/// be told of lengths these come first (LengthsPhase), and a check of the data may follow
/// (CallCheck).
class Call {
 public:
  explicit Call(Group& group);
  ~Call() { release(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Checks the arguments, chooses the program, takes the memory. Local. May be repeated with other
  /// arguments when not under way.
  Status prepare(const CallArguments& arguments);
  /// Starts it; from then on under_way() tells. Again after it is done, as often as wanted.
  /// `waits`: wait() comes next.
  Status start(bool waits = false);
  bool under_way() const { return started_ && !completion_.done; }
  Result<bool> test();
  Status wait();
  /// Gives the memory back; the call must not be under way, and is prepared anew before it starts
  /// again.
  void release() {
    bound_.release();
    if (check_ != nullptr) [[unlikely]]
      check_->release();
    prepared_ = false;
  }

  /// Gives the memory back of a call that is not under way; one that has none stays prepared.
  void rest() {
    if (bound_.holds_anything() || check_ != nullptr) release();
  }
  bool is_prepared() const { return prepared_; }

  Collective collective() const { return bound_.arguments().collective; }
  Group& group() { return *group_; }
  /// What prepare() has chosen.
  const CallPlan& plan() const { return bound_.plan(); }

 private:
  Status give_up(const Error& error);
  Status start_checked();
  Status start_phases(bool waits);
  Status post_lengths(uint32_t sequence);
  Status post_data(uint32_t sequence, bool waits = false);
  Status post_check();
  // What follows a phase, from inside whatever makes progress.
  static void after_lengths(void* call);
  static void after_data(void* call);
  static void after_check(void* call);
  void end_with(Status result);

  std::shared_ptr<Group> group_;
  BoundCall bound_;
  std::unique_ptr<CallCheck> check_;  ///< null: calls of the context are not checked
  Completion completion_;
  bool started_ = false;
  bool prepared_ = false;
  Status failure_;
  uint32_t data_sequence_ = 0;  ///< where lengths come first
};

}  // namespace ibcoll
