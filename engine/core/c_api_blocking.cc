#include "engine/core/c_api_blocking.h"

#include "engine/core/c_api.h"

namespace ibcoll::c_api {

/// The latest call that has that description, prepared; null: there is none.
BlockingCalls::Known* BlockingCalls::find(const ibcoll_call& call) {
  for (size_t i = 0; i < kKnown; ++i) {
    Known& known = known_[(latest_ + i) % kKnown];
    if (known.description.is(call) && known.call->is_prepared()) return &known;
  }
  return nullptr;
}

Status BlockingCalls::carry_out(ibcoll_group& handle, const ibcoll_call& call) {
  if (Known* const known = find(call)) {
    latest_ = static_cast<size_t>(known - known_.data());
    if (Status started = known->call->start(); !started) return started;
    return known->call->wait();
  }
  if (!Description::says_all(call)) {
    if (other_ == nullptr) other_ = std::make_unique<Call>(*handle.group);
    Status done = c_api::carry_out(*handle.context, *other_, call);
    other_->release();
    return done;
  }
  Known& known = place_for_another();
  if (known.call == nullptr) known.call = std::make_unique<Call>(*handle.group);
  known.call->release();
  known.description.take(call);
  Status done = c_api::carry_out(*handle.context, *known.call, call);
  known.call->rest();
  return done;
}

/// One that has no call to keep, or else that of the oldest call.
BlockingCalls::Known& BlockingCalls::place_for_another() {
  for (Known& known : known_) {
    if (known.call == nullptr || !known.call->is_prepared()) return known;
  }
  latest_ = (latest_ + kKnown - 1) % kKnown;
  return known_[latest_];
}

}  // namespace ibcoll::c_api
