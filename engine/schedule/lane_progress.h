#pragma once
/// How far somebody has come in one lane: which of its items have started, and which are complete.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/schedule/program.h"

namespace ibcoll {

/// Takes memory only for the items between the first that is not complete and the last that has
/// started.
class LaneProgress {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  explicit LaneProgress(uint32_t size) : size_(size) {}

  uint32_t size() const { return size_; }
  /// All items before it have started.
  uint32_t next() const { return next_; }
  /// All items before it are complete.
  uint32_t complete() const { return complete_; }
  bool all_started() const { return next_ == size_; }
  bool all_complete() const { return complete_ == size_; }

  /// The item that starts next: in a relaxed run the first of the `reach` items from next() on that
  /// `may_start` lets, else next() if it may. kNone: none can. `relaxed` says of an item what
  /// Op::relaxed is; items are asked about in ascending order, from next() on, `reach` at most.
  template <class RelaxedOf, class MayStart>
  uint32_t pick(uint32_t reach, const RelaxedOf& relaxed, const MayStart& may_start) {
    if (all_started()) return kNone;
    if (!in_run_) {
      if (relaxed(next_) != Op::Relaxed::kFirstOfRun) return may_start(next_) ? next_ : kNone;
      in_run_ = true;
      run_end_ = next_ + 1;
      run_ends_ = false;
    }
    const uint32_t end = next_ + std::min(reach, size_ - next_);
    while (!run_ends_ && run_end_ < end) look_at(run_end_, relaxed);
    for (uint32_t item = next_; item < std::min(run_end_, end); ++item) {
      if (!is(item, kStarted) && may_start(item)) return item;
    }
    return kNone;
  }

  /// `relaxed` as of pick().
  template <class RelaxedOf>
  void start(uint32_t item, const RelaxedOf& relaxed) {
    mark(item, kStarted);
    while (!all_started() && is(next_, kStarted)) ++next_;
    if (!in_run_ || next_ < run_end_) return;
    if (!run_ends_ && !all_started()) look_at(next_, relaxed);
    in_run_ = next_ < run_end_;
  }

  void finish(uint32_t item) {
    mark(item, kComplete);
    while (!all_complete() && is(complete_, kComplete)) ++complete_;
    constexpr uint32_t kDropped = 64;
    const uint32_t over = complete_ - first_;
    if (over < kDropped || over < states_.size() / 2) return;
    states_.erase(states_.begin(), states_.begin() + over);
    first_ = complete_;
  }

 private:
  enum State : uint8_t { kStarted = 1, kComplete = 2 };

  bool is(uint32_t item, State state) const {
    return item - first_ < states_.size() && (states_[item - first_] & state) != 0;
  }
  void mark(uint32_t item, State state) {
    if (item - first_ >= states_.size()) states_.resize(item - first_ + 1);
    states_[item - first_] |= state;
  }
  template <class RelaxedOf>
  void look_at(uint32_t item, const RelaxedOf& relaxed) {
    run_ends_ = relaxed(item) != Op::Relaxed::kInRun;
    run_end_ += run_ends_ ? 0 : 1;
  }

  std::vector<uint8_t> states_;  // from item first_ on
  uint32_t first_ = 0;
  uint32_t size_;
  uint32_t next_ = 0;
  uint32_t complete_ = 0;
  uint32_t run_end_ = 0;  // of the relaxed run that is under way, as far as it has been looked at
  bool in_run_ = false, run_ends_ = false;
};

}  // namespace ibcoll
