#pragma once
/// Threads that are to end while they are in the library.

#include <pthread.h>
#include <sys/single_threaded.h>

namespace ibcoll {

/// For the length of a call: a thread that is cancelled goes on until the call comes back. Where a
/// process has one thread nobody can cancel it, and nothing is done.
class NoCancellation {
 public:
  NoCancellation() {
    if (!__libc_single_threaded) [[unlikely]]
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  /// May not come back: one that is cancelled at any time is, here.
  ~NoCancellation() noexcept(false) {
    if (before_ == PTHREAD_CANCEL_ENABLE) [[unlikely]]
      pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
  }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_DISABLE;
};

}  // namespace ibcoll
