#include "engine/core/c_api_blocking.h"

#include "engine/core/c_api.h"

namespace ibcoll::c_api {

/// The latest call that has that description, prepared; null: there is none.
BlockingCalls::Known* BlockingCalls::find(const ibcoll_call& call, uint32_t plans) {
  for (size_t i = 0; i < kKnown; ++i) {
    Known& known = known_[(latest_ + i) % kKnown];
    if (known.description.is(call) && known.call->is_prepared() && known.plans == plans)
      return &known;
  }
  return nullptr;
}

Status BlockingCalls::carry_out(ibcoll_group& handle, const ibcoll_call& call) {
  Group& group = *handle.group;
  const uint32_t plans = group.plans().changes();
  if (Known* const known = find(call, plans)) {
    latest_ = static_cast<size_t>(known - known_.data());
    const Status started = known->call->start();
    const Status done = started ? known->call->wait() : started;
    known->call->rest();
    return done;
  }
  if (!Description::says_all(call)) {
    if (other_ == nullptr) other_ = std::make_unique<Call>(group);
    const Status done = c_api::carry_out(*handle.context, *other_, call);
    other_->release();
    return done;
  }
  latest_ = (latest_ + kKnown - 1) % kKnown;
  Known& known = known_[latest_];
  if (known.call == nullptr) known.call = std::make_unique<Call>(group);
  known.call->release();
  known.description.take(call);
  known.plans = plans;
  const Status done = c_api::carry_out(*handle.context, *known.call, call);
  known.call->rest();
  return done;
}

}  // namespace ibcoll::c_api
