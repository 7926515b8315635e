#pragma once
/// The library's own threads, inside a program that knows nothing of them.

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
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

/// How many of the library's own threads run in this process.
inline std::atomic<uint32_t> g_quiet_threads{0};

/// A thread in which all signals are blocked. Throws what std::thread does.
template <class Body>
std::thread quiet_thread(Body&& body) {
  const SignalsBlocked blocked;
  return std::thread([run = std::forward<Body>(body)]() mutable {
    struct Counted {
      Counted() { g_quiet_threads.fetch_add(1); }
      ~Counted() { g_quiet_threads.fetch_sub(1); }
    } const counted;
    run();
  });
}

/// How many threads of this process are not the library's own, at most: one that ends may count
/// still. 0: the kernel does not say.
uint32_t threads_of_others();

}  // namespace ibcoll
