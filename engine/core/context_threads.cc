#include "engine/core/context_threads.h"

namespace ibcoll {

Status ContextThreads::use(bool several, bool progress_thread) {
  if (several || progress_thread) {
    if (!waits_) waits_ = std::make_unique<SharedWaits>(executor_);
    waits_->set_one_calls(!several);
    if (progress_thread) IBCOLL_TRY(waits_->start_progress_thread());
    if (!progress_thread) waits_->stop_progress_thread();
    guard_.share(waits_.get(), several);
    executor_.share(waits_.get());
  } else if (waits_) {
    waits_->stop_progress_thread();
    guard_.share(nullptr, false);
    executor_.share(nullptr);
    waits_.reset();
  }
  return {};
}

Result<ArrivalDescriptor*> ContextThreads::descriptor() {
  if (!descriptor_) {
    IBCOLL_ASSIGN(descriptor_, ArrivalDescriptor::create(bell_));
  }
  return descriptor_.get();
}

void ContextThreads::stop() {
  (void)use(false, false);  // stopping can't fail
  descriptor_.reset();
}

}  // namespace ibcoll
