#pragma once
/// What a loop that waits for another core does between two looks.

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <sched.h>
#endif

namespace ibcoll {

inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#else
  sched_yield();
#endif
}

}  // namespace ibcoll
