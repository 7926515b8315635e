// Calls whose bytes are checked (IBCOLL_CHECK): one phase more, or one that goes on when the call
// has ended.

#include "engine/core/call.h"
#include "engine/core/late_checks.h"

namespace ibcoll {

struct CallCheck {
  DataCheck::Kind kind = DataCheck::Kind::kNone;
  std::unique_ptr<DataCheck> data;  ///< null: nothing of the call can be checked, or it is late
  bool late = false;                ///< the call may end before its own verdict is there
  uint32_t begun_before = 0;        ///< the number of the call's first phase
  uint32_t sequence = 0;            ///< of the check
};

Call::Call(Group& group)
    : group_(group.shared_from_this()), checks_(group.context().check_mode() != CheckMode::kOff) {
  completion_.owner = this;
}

Call::~Call() { release(); }

/// Whatever may fail on one rank alone is done here.
Status Call::prepare_check() {
  if (arguments_.purpose == CallPurpose::kCheck) return {};
  if (check_ == nullptr) check_ = std::make_unique<CallCheck>();
  check_->kind = DataCheck::kind_of(arguments_, plan_);
  if (check_->kind == DataCheck::Kind::kNone) {
    check_->data.reset();
    return {};
  }
  if (check_->data == nullptr) check_->data = std::make_unique<DataCheck>(*group_);
  check_->late = group_->context().check_mode() == CheckMode::kLate &&
                 check_->kind != DataCheck::Kind::kAgain && !group_->identity().of_set;
  return check_->data->prepare(arguments_, plan_, binding_, meaning_);
}

Status Call::start_checked() {
  CallCheck& check = *check_;
  const bool checks = check.kind != DataCheck::Kind::kNone;
  if (checks && check.data == nullptr) {  // what was checked before may still be under way
    const Status prepared = prepare_check();
    if (!prepared) return give_up(prepared.error());
  }
  if (checks) check.data->start(in_place_);
  // All phases get their places in the group's order of calls now.
  const bool asks = lengths_ != nullptr && !lengths_known_;
  const uint32_t first = group_->next_sequence();
  data_sequence_ = asks ? group_->next_sequence() : first;
  check.begun_before = first;
  if (checks) check.sequence = group_->next_sequence();
  IBCOLL_TRY(asks ? start_lengths(first) : start_data(checks ? after_data : nullptr));
  // Peers may receive meanwhile.
  if (check.data != nullptr) check.data->hash_sent();
  return {};
}

Status Call::post_for(Completion& completion, uint32_t sequence, int64_t time_limit_ns,
                      int64_t deadline_ns) {
  binding_.time_limit_ns = time_limit_ns;
  binding_.deadline_ns = deadline_ns;
  return group_->context().executor().post(group_->state(), *plan_.program, binding_, completion,
                                           sequence);
}

Status Call::post_check() {
  CallCheck& check = *check_;
  check.data->hash_sent();
  if (!check.late) {
    completion_.then = after_check;
    return check.data->post(completion_, check.sequence, binding_.time_limit_ns,
                            binding_.deadline_ns);
  }
  check.data->hash_received();  // the program may use its memory again
  completion_.done = true;
  return group_->context().late_checks().add(std::move(check.data), *group_, check.sequence);
}

/// All data has come. Runs from inside whatever makes progress.
void Call::after_data(void* call) {
  Call& self = *static_cast<Call*>(call);
  const Status posted = self.post_check();
  if (!posted) {
    self.failure_ = self.give_up(posted.error());
    self.completion_.done = true;
    return;
  }
  // While the hashes travel.
  if (self.check_->data != nullptr) self.check_->data->hash_received();
}

void Call::after_check(void* call) {
  Call& self = *static_cast<Call*>(call);
  self.failure_ = self.check_->data->compare();
  self.completion_.done = true;
}

/// Of the calls before this one.
Result<bool> Call::has_verdicts() {
  if (check_ == nullptr || group_->context().check_mode() != CheckMode::kLate) return true;
  return group_->context().late_checks().test(*group_, check_->begun_before);
}

Status Call::await_verdicts() {
  if (check_ == nullptr || group_->context().check_mode() != CheckMode::kLate) return {};
  return group_->context().late_checks().settle(*group_, check_->begun_before);
}

void Call::release_check() {
  if (check_ != nullptr && check_->data != nullptr) check_->data->release();
}

}  // namespace ibcoll
