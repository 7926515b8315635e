#include "engine/base/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace ibcoll {
namespace {

long futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, timeout, nullptr,
                 0);
}

}  // namespace

void ring_slow(Bell& bell) {
  bell.rings.fetch_add(1, std::memory_order_release);
  futex(&bell.rings, FUTEX_WAKE, 1, nullptr);
}

uint32_t announce_sleep(Bell& own) {
  const uint32_t rings = own.rings.load(std::memory_order_acquire);
  own.sleeping.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return rings;
}

void sleep_on(Bell& own, uint32_t announced, int64_t nanoseconds) {
  const timespec timeout{static_cast<time_t>(nanoseconds / 1'000'000'000),
                         static_cast<long>(nanoseconds % 1'000'000'000)};
  futex(&own.rings, FUTEX_WAIT, announced, &timeout);
}

void end_sleep(Bell& own) { own.sleeping.store(0, std::memory_order_relaxed); }

}  // namespace ibcoll
