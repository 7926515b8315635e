#pragma once
/// The clock that durations are measured by.

#include <chrono>
#include <cstdint>

namespace ibcoll {

/// Nanoseconds of the steady clock: since this machine was started, or so.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace ibcoll
