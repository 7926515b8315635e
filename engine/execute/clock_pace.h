#pragma once
/// When to read the clock between rounds that are short.

#include <algorithm>
#include <cstdint>

namespace ibcoll {

/// Counts rounds until the clock is to be read again: about once in kAimNs, or every kMost rounds,
/// which cost more than reading it does however short they are.
class ClockPace {
 public:
  static constexpr int64_t kAimNs = 1'000'000;
  static constexpr int32_t kMost = 1024;

  explicit ClockPace(int32_t first) { begin(first); }
  /// After so many rounds for the first time.
  void begin(int32_t first) {
    left_ = interval_ = first;
    read_ns_ = 0;
  }
  /// One more round: whether the clock is to be read.
  bool is_due() { return --left_ <= 0; }
  /// It has been read, and is `now`.
  void read(int64_t now) {
    if (read_ns_ != 0) interval_ = now - read_ns_ < kAimNs ? std::min(2 * interval_, kMost) : 1;
    left_ = interval_;
    read_ns_ = now;
  }

 private:
  int32_t left_, interval_;
  int64_t read_ns_;  ///< 0: not yet
};

}  // namespace ibcoll
