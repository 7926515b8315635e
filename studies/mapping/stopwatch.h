#pragma once
/// What the time budgets of searches are counted with.

#include <ctime>

#include "engine/base/clock.h"

namespace ibcoll::topology {

enum class Clock {
  kWall,       ///< as the user waits
  kProcessor,  ///< this process's: what else the machine does makes no search worse
};

/// Seconds since it was made.
class Stopwatch {
 public:
  explicit Stopwatch(Clock clock) : clock_(clock), begin_ns_(now()) {}
  double seconds() const { return static_cast<double>(now() - begin_ns_) / 1e9; }

 private:
  int64_t now() const {
    if (clock_ == Clock::kWall) return now_ns();
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
  }

  Clock clock_;
  int64_t begin_ns_;
};

}  // namespace ibcoll::topology
