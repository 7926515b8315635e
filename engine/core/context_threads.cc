#include "engine/core/context_threads.h"

namespace ibcoll {

Status ContextThreads::use(bool several, bool progress_thread) {
  const bool thread = progress_thread || helps_peers_;
  if (several || thread) {
    if (!waits_) waits_ = std::make_unique<SharedWaits>(executor_);
    waits_->set_one_calls(!several);
    if (thread) IBCOLL_TRY(waits_->start_progress_thread(!progress_thread));
    if (!thread) waits_->stop_progress_thread();
    guard_.share(waits_.get(), several);
    executor_.share(waits_.get());
  } else if (waits_) {
    waits_->stop_progress_thread();
    guard_.share(nullptr, false);
    executor_.share(nullptr);
    waits_.reset();
  }
  has_progress_thread_ = progress_thread;
  return {};
}

Status ContextThreads::help_peers() {
  helps_peers_ = true;
  return use(guard_.lets_several_in(), has_progress_thread_);
}

Result<ArrivalDescriptor*> ContextThreads::descriptor() {
  if (!descriptor_) {
    IBCOLL_ASSIGN(descriptor_, ArrivalDescriptor::create(bell_));
  }
  return descriptor_.get();
}

void ContextThreads::stop() {
  helps_peers_ = false;
  (void)use(false, false);  // stopping can't fail
  descriptor_.reset();
}

}  // namespace ibcoll
