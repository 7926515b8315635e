#pragma once
/// A lock in memory that processes share, any of which may die while it holds it.

#include <pthread.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include <atomic>
#include <cerrno>
#include <ctime>

namespace ibcoll {

/// What is written before this is there if what is written after it is, wherever the holder of a
/// lock dies: no processor undoes the order in which one process writes, but a compiler may.
inline void keep_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// Not for the data path. What it guards must stay sound wherever its holder dies.
class RobustMutex {
 public:
  /// One rank calls this before any takes it.
  void prepare() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }

  class Lock {
   public:
    explicit Lock(RobustMutex& mutex) : mutex_(mutex.mutex_) {
      int taken = ETIMEDOUT;
      while (taken == ETIMEDOUT) taken = lock_soon();
      if (taken != EOWNERDEAD) return;
#ifdef __SANITIZE_THREAD__
      // The sanitizer takes this for a lock that was not taken.
      __tsan_mutex_pre_lock(&mutex_, __tsan_mutex_try_lock);
      __tsan_mutex_post_lock(&mutex_, __tsan_mutex_try_lock, 0);
#endif
      pthread_mutex_consistent(&mutex_);
    }
    ~Lock() { pthread_mutex_unlock(&mutex_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    /// Who is woken and dies before it has the lock takes the wake-up with it, unless the lock is
    /// still free then: the kernel hands it on only in that case. So nobody sleeps for long.
    int lock_soon() {
      timespec until{};
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_nsec += kLongestSleepNs;
      if (until.tv_nsec >= 1'000'000'000) {
        until.tv_nsec -= 1'000'000'000;
        ++until.tv_sec;
      }
      return pthread_mutex_timedlock(&mutex_, &until);
    }

    static constexpr long kLongestSleepNs = 10'000'000;
    pthread_mutex_t& mutex_;
  };

 private:
  pthread_mutex_t mutex_;
};

}  // namespace ibcoll
