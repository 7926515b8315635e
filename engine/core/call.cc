#include "engine/core/call.h"

namespace ibcoll {

Call::Call(Group& group)
    : group_(group.shared_from_this()),
      bound_(group),
      check_(group.services().check_mode == CheckMode::kOff ? nullptr
                                                            : std::make_unique<CallCheck>(group)) {
  completion_.owner = this;
}

Status Call::prepare(const CallArguments& arguments) {
  if (group_->state().over) [[unlikely]]
    return tl::unexpected<Error>(*group_->state().over);
  IBCOLL_TRY(check_arguments(group_->shape(), group_->rank(), arguments));
  release();
  Status ready = bound_.bind(arguments);
  if (ready && check_ != nullptr) [[unlikely]]
    ready = check_->prepare(bound_);
  // The others have no part in that and would wait for this rank.
  if (!ready && ready.error().code == ErrorCode::kNoMemory) return give_up(ready.error());
  prepared_ = ready.has_value();
  return ready;
}

Status Call::give_up(const Error& error) {
  return tl::unexpected<Error>(group_->services().executor.give_up(
      {error.code, fmt::format("{}, for {}", error.message, to_string(collective()))}));
}

Status Call::start(bool waits) {
  Executor& executor = group_->services().executor;
  if (executor.failed()) [[unlikely]]
    return tl::unexpected<Error>(*executor.failed());
  if (group_->state().over) [[unlikely]]
    return tl::unexpected<Error>(*group_->state().over);
  if (!prepared_) return fail(ErrorCode::kInvalidArgument, "the call has no arguments yet");
  if (under_way())
    return fail(ErrorCode::kInvalidArgument, "the call is under way already: wait for it first");
  failure_ = {};
  bound_.begin();
  started_ = true;
  return check_ == nullptr ? start_phases(waits) : start_checked();
}

// All phases get their places in the group's order of calls when the call starts: other calls may
// be posted before the later phases are.

Status Call::start_phases(bool waits) {
  const uint32_t first = group_->next_sequence();
  if (!bound_.asks_lengths()) [[likely]]
    return post_data(first, waits);
  data_sequence_ = group_->next_sequence();
  return post_lengths(first);
}

Status Call::start_checked() {
  if (const Status ready = check_->start(bound_); !ready) return give_up(ready.error());
  const bool asks = bound_.asks_lengths();
  const uint32_t first = group_->next_sequence();
  if (asks) data_sequence_ = group_->next_sequence();
  check_->take_sequence(first);
  IBCOLL_TRY(asks ? post_lengths(first) : post_data(first));
  // Peers may receive meanwhile.
  check_->hash_sent();
  return {};
}

Status Call::post_lengths(uint32_t sequence) {
  completion_.then = after_lengths;
  return group_->services().executor.post(group_->state(), bound_.program(), bound_.bind_lengths(),
                                          completion_, sequence);
}

Status Call::post_data(uint32_t sequence, bool waits) {
  completion_.then = check_ != nullptr && check_->is_due() ? after_data : nullptr;
  Executor& executor = group_->services().executor;
  if (const ShortProgram* const list = bound_.short_program()) {
    return executor.post(group_->state(), bound_.program(), bound_.binding(), completion_, sequence,
                         *list, waits);
  }
  return executor.post(group_->state(), bound_.program(), bound_.binding(), completion_, sequence);
}

Status Call::post_check() {
  if (check_->is_late()) {
    completion_.done = true;
    return check_->go_on_alone();
  }
  completion_.then = after_check;
  return check_->post(completion_, bound_.binding());
}

void Call::after_lengths(void* call) {
  Call& self = *static_cast<Call*>(call);
  Status posted = self.bound_.take_lengths();
  if (posted) posted = self.post_data(self.data_sequence_);
  if (!posted) self.end_with(self.give_up(posted.error()));
}

void Call::after_data(void* call) {
  Call& self = *static_cast<Call*>(call);
  const Status posted = self.post_check();
  if (!posted) self.end_with(self.give_up(posted.error()));
}

void Call::after_check(void* call) {
  Call& self = *static_cast<Call*>(call);
  self.end_with(self.check_->verdict());
}

void Call::end_with(Status result) {
  failure_ = std::move(result);
  completion_.done = true;
}

Result<bool> Call::test() {
  if (!started_) return true;
  IBCOLL_ASSIGN(bool done, group_->services().executor.test(completion_));
  if (done && check_ != nullptr) [[unlikely]] {
    IBCOLL_ASSIGN(done, check_->test_earlier());
  }
  if (done) {
    started_ = false;
    if (!failure_) return tl::unexpected<Error>(failure_.error());
  }
  return done;
}

Status Call::wait() {
  if (!started_) return {};
  IBCOLL_TRY(group_->services().executor.wait(completion_));
  started_ = false;
  if (check_ != nullptr) [[unlikely]]
    IBCOLL_TRY(check_->settle_earlier());
  return failure_;
}

}  // namespace ibcoll
