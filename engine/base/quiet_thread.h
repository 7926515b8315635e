#pragma once
/// Threads of the library's own inside a program that knows nothing of them.

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace ibcoll {

/// Threads that are started while it lives have all signals blocked: they are the program's, whose
/// handlers run in threads of its own.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// A thread in which all signals are blocked. Throws what std::thread does.
template <class Body>
std::thread quiet_thread(Body&& body) {
  const SignalsBlocked blocked;
  return std::thread(std::forward<Body>(body));
}

}  // namespace ibcoll
