#pragma once
/// Ranks that a test launches, and what they tell it.

#include <sys/mman.h>

#include <functional>
#include <new>

#include "engine/bootstrap/launch.h"

namespace ibcoll {

/// What a rank found out, told to the test by its exit status.
enum Outcome { kGood = 0, kWrong = 71, kNoError = 72 };

/// For so many ranks, whose failures nobody prints.
LaunchOptions quiet(int ranks);

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

/// Asks every millisecond.
void wait_until(const std::function<bool()>& condition);

}  // namespace ibcoll
