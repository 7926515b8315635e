#include "engine/sharing/bell.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "engine/sharing/futex.h"

namespace ibcoll {

using detail::Fences;

std::atomic<Fences> detail::g_fences{Fences::kOwn};

namespace {

/// False: the kernel has no such call, or forbids it to this process.
bool fence_for_all() { return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0; }

}  // namespace

void prepare_bells(Bell& own) {
  own.needs_fences.store(fence_for_all() ? 0 : 1, std::memory_order_relaxed);
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0) return;
  Fences before = Fences::kOwn;
  detail::g_fences.compare_exchange_strong(before, Fences::kOfSleepers, std::memory_order_relaxed);
}

void heed_bells(std::span<const Bell> bells) {
  for (const Bell& bell : bells) {
    if (bell.needs_fences.load(std::memory_order_relaxed) != 0)
      detail::g_fences.store(Fences::kOwnForGood, std::memory_order_relaxed);
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
  fence_for_all();  // for those that ring without a fence of their own: they know whether it can
  return rings;
}

void sleep_on(Bell& own, uint32_t announced, int64_t nanoseconds) {
  futex_wait(own.rings, announced, nanoseconds);
}

void end_sleep(Bell& own) { own.sleeping.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace ibcoll
