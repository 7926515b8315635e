#pragma once
/// What the time budgets of searches are counted with.

#include <ctime>

namespace ibcoll::topology {

enum class Clock {
  kWall,       ///< as the user waits
  kProcessor,  ///< this process's: what else the machine does makes no search worse
};

/// Seconds since it was made.
class Stopwatch {
 public:
  explicit Stopwatch(Clock clock)
      : clock_(clock == Clock::kWall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID), begin_(now()) {}
  double seconds() const { return now() - begin_; }

 private:
  double now() const {
    timespec time{};
    clock_gettime(clock_, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  clockid_t clock_;
  double begin_;
};

}  // namespace ibcoll::topology
