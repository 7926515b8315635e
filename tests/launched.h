#pragma once
/// Ranks that a test launches, and what they tell it.

#include <sys/mman.h>

#include <chrono>
#include <functional>
#include <new>
#include <thread>

#include "engine/bootstrap/launch.h"

namespace ibcoll {

/// What a rank found out, told to the test by its exit status.
enum Outcome { kGood = 0, kWrong = 71, kNoError = 72 };

inline LaunchOptions quiet(int ranks) {
  LaunchOptions options;
  options.ranks = ranks;
  options.on_failure = [](const Failure&) {};
  return options;
}

/// Memory that forked ranks and the test see.
template <class T>
class InSharedMemory {
 public:
  InSharedMemory()
      : value_(new (mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                         0)) T()) {}
  ~InSharedMemory() { munmap(value_, sizeof(T)); }
  InSharedMemory(const InSharedMemory&) = delete;
  InSharedMemory& operator=(const InSharedMemory&) = delete;
  T& operator*() { return *value_; }
  T* operator->() { return value_; }

 private:
  T* value_;
};

inline void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace ibcoll
