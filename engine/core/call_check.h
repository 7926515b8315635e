#pragma once
/// Of a call whose bytes are checked (IBCOLL_CHECK): what is checked, and when. It is one phase
/// more, or one that goes on when the call has ended.

#include <cstdint>
#include <memory>

#include "engine/core/late_checks.h"

namespace ibcoll {

class CallCheck {
 public:
  explicit CallCheck(Group& group) : group_(group) {}

  /// For a call that has been bound. Whatever may fail on one rank alone is done here.
  Status prepare(const BoundCall& call);
  /// Gives the memory back.
  void release();

  /// For each start, before anything is sent. Fails on this rank alone.
  Status start(const BoundCall& call);
  /// Gives the check its place in the group's order of calls; `first`: that of the call's first
  /// phase.
  void take_sequence(uint32_t first);
  /// Hashes what is sent, as long as peers receive.
  void hash_sent();

  /// Whether anything of the call is checked when its data has come.
  bool is_due() const { return kind_ != DataCheck::Kind::kNone; }
  /// Whether the call may end then: go_on_alone() follows, else post().
  bool is_late() const { return late_; }
  /// `completion` learns when verdict() may be asked for; `call` says how long that may take.
  Status post(Completion& completion, const Binding& call);
  Status verdict() { return data_->compare(); }
  /// The program may use its memory again when this has come back.
  Status go_on_alone();

  /// Whether earlier calls of the group have their verdicts; makes progress.
  Result<bool> test_earlier();
  /// Waits until they have.
  Status settle_earlier();

 private:
  LateChecks* late_checks() const;

  Group& group_;
  DataCheck::Kind kind_ = DataCheck::Kind::kNone;
  std::unique_ptr<DataCheck> data_;  ///< null: nothing of the call can be checked, or it is late
  bool late_ = false;
  uint32_t begun_before_ = 0;  ///< the number of the call's first phase
  uint32_t sequence_ = 0;      ///< of the check
};

}  // namespace ibcoll
