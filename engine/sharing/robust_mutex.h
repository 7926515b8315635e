#pragma once
/// A lock in memory that processes share, any of which may die while it holds it.

#include <pthread.h>

#include <cerrno>

namespace ibcoll {

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
      if (pthread_mutex_lock(&mutex_) == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
    }
    ~Lock() { pthread_mutex_unlock(&mutex_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    pthread_mutex_t& mutex_;
  };

 private:
  pthread_mutex_t mutex_;
};

}  // namespace ibcoll
