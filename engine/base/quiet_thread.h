#pragma once
/// Threads of the library's own inside a program that knows nothing of them.

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace ibcoll {

/// A thread in which all signals are blocked: they are the program's, whose handlers run in threads
/// of its own. Throws what std::thread does.
template <class Body>
std::thread quiet_thread(Body&& body) {
  class Blocked {
   public:
    Blocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;

   private:
    sigset_t before_;
  } const blocked;
  return std::thread(std::forward<Body>(body));
}

}  // namespace ibcoll
