#pragma once
/// Hints to the processor's caches.

#include <cstddef>

namespace ibcoll {

/// Has this core's cache fetch a line that it will write, with the right to, while it goes on: to
/// write a line that another core has read takes two trips between the cores otherwise, for which
/// all later stores wait.
inline void prefetch_to_write(const std::byte* line) {
#ifdef __x86_64__
  // Compilers leave out the right to write unless told that all processors know how to get it.
  // Those that don't take it for nothing at all.
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace ibcoll
