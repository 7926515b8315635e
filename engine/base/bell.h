#pragma once
/// A bell in shared memory that a rank sleeps on and its peers ring.

#include <atomic>
#include <cstdint>

namespace ibcoll {

/// One rank's bell; a cache line of its own in memory shared by everybody who may ring it. All zero
/// bytes are a valid bell.
struct alignas(64) Bell {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> sleeping{0};
};

/// Wakes the owner if it sleeps. To be called after what it shall see has been stored (release):
/// the fence in here and the one in sleep_on order that store against the look at `sleeping`, so no
/// wake-up is lost.
void ring_slow(Bell& bell);
inline void ring(Bell& bell) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (bell.sleeping.load(std::memory_order_relaxed) != 0) [[unlikely]]
    ring_slow(bell);
}

/// Sleeps until rung or for at most `nanoseconds`. Use: announce_sleep(); look once more whether
/// there is something to do; if not sleep_on(); in either case end_sleep().
uint32_t announce_sleep(Bell& own);
void sleep_on(Bell& own, uint32_t announced, int64_t nanoseconds);
void end_sleep(Bell& own);

}  // namespace ibcoll
