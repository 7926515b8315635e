#pragma once
/// A bell in shared memory that a rank sleeps on and its peers ring.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "engine/sharing/shared_access.h"

namespace ibcoll {

/// One rank's bell; a cache line of its own in memory shared by everybody who may ring it. All zero
/// bytes are a valid bell.
struct alignas(64) Bell {
  Shared<uint32_t> rings{0};
  Shared<uint32_t> sleeping{0};      ///< threads of the owner that do, or are about to
  Shared<uint32_t> needs_fences{0};  ///< its owner can't fence for those who ring it
};

/// The bells of the ranks of a machine, by their numbers in the job.
class Bells {
 public:
  /// Of the ranks 0, 1, ...: those of a job on one machine.
  Bells(std::span<Bell> bells) : bells_(bells) {}
  /// `ranks`: whose they are, in ascending order; outlive this.
  Bells(std::span<Bell> bells, std::span<const int32_t> ranks) : bells_(bells), ranks_(ranks) {}

  /// Not for the data path.
  Bell& of(int32_t rank) const {
    if (ranks_.empty()) return bells_[static_cast<size_t>(rank)];
    const auto place = std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin();
    return bells_[static_cast<size_t>(place)];
  }
  std::span<Bell> all() const { return bells_; }

 private:
  std::span<Bell> bells_;
  std::span<const int32_t> ranks_;
};

/// Call it in every process that rings bells, before the first ring: tells the kernel that sleepers
/// may fence for this process, and those who ring the own bell whether its owner can do so.
void prepare_bells(Bell& own);
/// Call it when the owners of all these bells have prepared them, before the first ring: where one
/// of them can't fence for others, this process fences whenever it rings, from now on.
void heed_bells(std::span<const Bell> bells);

namespace detail {
enum class Fences : uint32_t {
  kOwn,         ///< who rings fences; the kernel has not been asked for anything else
  kOfSleepers,  ///< sleepers fence for this process
  kOwnForGood,  ///< who rings fences, as some sleeper can't
};
extern std::atomic<Fences> g_fences;
}  // namespace detail

/// Whether this process leaves it to sleepers to fence.
inline bool sleepers_fence() {
  return detail::g_fences.load(std::memory_order_relaxed) == detail::Fences::kOfSleepers;
}

/// Orders what was stored before (release) against a look at anybody's `sleeping` after. Where the
/// kernel lets a sleeper do that for everybody (membarrier), it costs nothing here: a fence would
/// hold the core until its stores have reached the cache.
inline void bell_fence() {
  if (sleepers_fence()) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    shared_fence(std::memory_order_seq_cst);
  }
}

/// Wakes all sleeping threads of the owner. Call bell_fence() between storing what it shall see and
/// this.
void ring_slow(Bell& bell);
inline void ring_if_sleeping(Bell& bell) {
  if (bell.sleeping.load(std::memory_order_relaxed) != 0) [[unlikely]]
    ring_slow(bell);
}
inline void ring(Bell& bell) {
  bell_fence();
  ring_if_sleeping(bell);
}

/// Sleeps until rung or for at most `nanoseconds`. Use: announce_sleep(); look once more whether
/// there is something to do; if not sleep_on(); in either case end_sleep(). Several threads of the
/// owner may do so at a time, and one may end the sleep that another has announced.
uint32_t announce_sleep(Bell& own);
void sleep_on(Bell& own, uint32_t announced, int64_t nanoseconds);
void end_sleep(Bell& own);

}  // namespace ibcoll
