#include "engine/base/bell.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "engine/base/futex.h"

namespace ibcoll {

std::atomic<bool> detail::g_sleepers_fence{false};

void prepare_bells() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0) {
    detail::g_sleepers_fence.store(true, std::memory_order_relaxed);
  }
}

void ring_slow(Bell& bell) {
  bell.rings.fetch_add(1, std::memory_order_release);
  futex_wake(bell.rings, INT_MAX);
}

uint32_t announce_sleep(Bell& own) {
  const uint32_t rings = own.rings.load(std::memory_order_acquire);
  own.sleeping.fetch_add(1, std::memory_order_relaxed);
  shared_fence(std::memory_order_seq_cst);
  // For those that ring without a fence of their own; where the kernel has none, they fence.
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  return rings;
}

void sleep_on(Bell& own, uint32_t announced, int64_t nanoseconds) {
  futex_wait(own.rings, announced, nanoseconds);
}

void end_sleep(Bell& own) { own.sleeping.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace ibcoll
