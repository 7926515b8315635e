#pragma once
/// How far somebody who goes through a program has come: what of each lane has started, and what is
/// complete. Whoever goes through it says what an operation does, and when.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "engine/schedule/expand.h"
#include "engine/schedule/program.h"

namespace ibcoll {

/// One lane. It consists of *items*: operations, each piece of one in a stream counted apart.
class LaneCursor {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  /// At the beginning of a lane; `items`: what it consists of, empty if every operation is one.
  /// `ops` must outlive the cursor.
  LaneCursor(const std::vector<Op>& ops, std::vector<Item> items)
      : ops_(ops.data()),
        items_(std::move(items)),
        state_(items_.empty() ? ops.size() : items_.size()) {}

  uint32_t size() const { return static_cast<uint32_t>(state_.size()); }
  /// The place of an item's operation in the lane.
  uint32_t place(uint32_t item) const { return items_.empty() ? item : items_[item].op; }
  const Op& op(uint32_t item) const { return ops_[place(item)]; }
  /// In a stream an item is this piece only, else all pieces of its slots.
  bool streamed(uint32_t item) const { return !items_.empty() && items_[item].streamed; }
  uint32_t piece(uint32_t item) const { return items_.empty() ? 0 : items_[item].piece; }
  /// Whether it may start before others that stand before it: of a relaxed run, or of a stream in
  /// strands.
  Op::Relaxed relaxed(uint32_t item) const {
    return items_.empty() ? ops_[item].relaxed : items_[item].relaxed;
  }
  /// Op::after, counted in items.
  const std::array<uint32_t, kLanes>& after(uint32_t item) const {
    return items_.empty() ? ops_[item].after : items_[item].after;
  }
  /// Of a signal: in a stream of `pieces` one of them sends the token.
  bool sends_token(uint32_t item, uint32_t pieces) const {
    return !streamed(item) || piece(item) == signal_piece(op(item), pieces);
  }

  /// All items before it have started.
  uint32_t next() const { return next_; }
  /// All items before it are complete.
  uint32_t complete() const { return complete_; }
  bool all_started() const { return next_ == size(); }
  bool all_complete() const { return complete_ == size(); }

  /// The item that starts next: in a relaxed run the first of the `reach` items from next() on that
  /// `may_start` lets, else next() if it may: nobody is so late that strands overtake each other.
  /// kNone: none can.
  template <class MayStart>
  uint32_t pick(uint32_t reach, const MayStart& may_start) {
    if (all_started()) return kNone;
    if (run_end_ == 0) {
      if (op(next_).relaxed != Op::Relaxed::kFirstOfRun) return may_start(next_) ? next_ : kNone;
      run_end_ = next_ + 1;
      while (run_end_ < size() && op(run_end_).relaxed == Op::Relaxed::kInRun) ++run_end_;
    }
    const uint32_t end = std::min(run_end_, next_ + reach);
    for (uint32_t item = next_; item < end; ++item) {
      if ((state_[item] & kStarted) == 0 && may_start(item)) return item;
    }
    return kNone;
  }

  void start(uint32_t item) {
    state_[item] |= kStarted;
    while (!all_started() && (state_[next_] & kStarted) != 0) ++next_;
    if (next_ >= run_end_) run_end_ = 0;
  }

  void finish(uint32_t item) {
    state_[item] |= kComplete;
    while (!all_complete() && (state_[complete_] & kComplete) != 0) ++complete_;
  }

 private:
  enum State : uint8_t { kStarted = 1, kComplete = 2 };

  const Op* ops_;
  std::vector<Item> items_;
  std::vector<uint8_t> state_;  // by item
  uint32_t next_ = 0;
  uint32_t complete_ = 0;
  uint32_t run_end_ = 0;  // of the relaxed run that is under way; 0: none
};

/// All lanes of a rank's program.
class ProgramCursor {
 public:
  /// At the beginning; the slots of streams are cut into `pieces`. The program must outlive it.
  ProgramCursor(const RankProgram& program, uint32_t pieces);

  LaneCursor& operator[](int lane) { return lanes_[lane]; }
  const LaneCursor& operator[](int lane) const { return lanes_[lane]; }
  /// Items of all lanes.
  uint64_t size() const;
  /// A lane of which less is complete than an item of `lane` comes after; -1: none.
  int behind(int lane, uint32_t item) const {
    const auto& after = lanes_[lane].after(item);
    for (int other = 0; other < kLanes; ++other) {
      if (lanes_[other].complete() < after[other]) return other;
    }
    return -1;
  }

 private:
  ProgramCursor(const RankProgram& program, std::array<std::vector<Item>, kLanes> items);
  std::array<LaneCursor, kLanes> lanes_;
};

}  // namespace ibcoll
