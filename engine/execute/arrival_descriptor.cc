#include "engine/execute/arrival_descriptor.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "engine/base/quiet_thread.h"
#include "engine/bootstrap/descriptors.h"

namespace ibcoll {

Result<std::unique_ptr<ArrivalDescriptor>> ArrivalDescriptor::create(Bell& bell) {
  UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return fail_opening("cannot create a descriptor to sleep on");
  std::unique_ptr<ArrivalDescriptor> self(new ArrivalDescriptor(bell, std::move(event)));
  try {
    self->thread_ = quiet_thread([made = self.get()] { made->run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kSystem, "no thread to sleep for the program: {}", error.what());
  }
  return self;
}

ArrivalDescriptor::~ArrivalDescriptor() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_one();
    ring_slow(bell_);
  }
  thread_.join();
}

void ArrivalDescriptor::drain() {
  uint64_t count = 0;
  while (read(event_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

void ArrivalDescriptor::set(uint32_t announced, int64_t limit_ns) {
  armed_ = true;
  announced_ = announced;
  limit_ns_ = limit_ns;
  changed_.notify_one();
}

void ArrivalDescriptor::started() {
  const std::lock_guard lock(mutex_);
  if (armed_ && limit_ns_ == kNoLimit) ring_slow(bell_);
}

void ArrivalDescriptor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!armed_ && !stop_) changed_.wait(lock);
    if (stop_) break;
    const uint32_t announced = announced_;
    const int64_t limit_ns = limit_ns_;
    lock.unlock();
    sleep_on(bell_, announced, limit_ns);
    lock.lock();
    armed_ = false;
    end_sleep(bell_);
    const uint64_t one = 1;
    while (write(event_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }
  if (armed_) end_sleep(bell_);
}

}  // namespace ibcoll
