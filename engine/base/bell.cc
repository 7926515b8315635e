#include "engine/base/bell.h"

#include "engine/base/futex.h"

namespace ibcoll {

void ring_slow(Bell& bell) {
  bell.rings.fetch_add(1, std::memory_order_release);
  futex_wake(bell.rings, 1);
}

uint32_t announce_sleep(Bell& own) {
  const uint32_t rings = own.rings.load(std::memory_order_acquire);
  own.sleeping.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return rings;
}

void sleep_on(Bell& own, uint32_t announced, int64_t nanoseconds) {
  futex_wait(own.rings, announced, nanoseconds);
}

void end_sleep(Bell& own) { own.sleeping.store(0, std::memory_order_relaxed); }

}  // namespace ibcoll
