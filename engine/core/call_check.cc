#include "engine/core/call_check.h"

namespace ibcoll {

Status CallCheck::prepare(const BoundCall& call) {
  kind_ = DataCheck::kind_of(call);
  if (!is_due()) {
    data_.reset();
    return {};
  }
  if (data_ == nullptr) data_ = std::make_unique<DataCheck>(group_);
  late_ = late_checks() != nullptr && kind_ != DataCheck::Kind::kAgain && !group_.identity().of_set;
  return data_->prepare(call);
}

void CallCheck::release() {
  if (data_ != nullptr) data_->release();
}

Status CallCheck::start(const BoundCall& call) {
  if (!is_due()) return {};
  // What was checked before may still be under way.
  if (data_ == nullptr) IBCOLL_TRY(prepare(call));
  data_->start(call.aside());
  return {};
}

void CallCheck::take_sequence(uint32_t first) {
  begun_before_ = first;
  if (is_due()) sequence_ = group_.next_sequence();
}

void CallCheck::hash_sent() {
  if (data_ != nullptr) data_->hash_sent();
}

Status CallCheck::post(Completion& completion, const Binding& call) {
  data_->hash_sent();
  IBCOLL_TRY(data_->post(completion, sequence_, call.time_limit_ns, call.deadline_ns));
  data_->hash_received();  // while the hashes travel
  return {};
}

Status CallCheck::go_on_alone() {
  data_->hash_sent();
  data_->hash_received();
  return late_checks()->add(std::move(data_), group_, sequence_);
}

Result<bool> CallCheck::test_earlier() {
  return late_checks() == nullptr ? true : late_checks()->test(group_, begun_before_);
}

Status CallCheck::settle_earlier() {
  return late_checks() == nullptr ? Status{} : late_checks()->settle(group_, begun_before_);
}

LateChecks* CallCheck::late_checks() const { return group_.services().late_checks; }

}  // namespace ibcoll
