#pragma once
/// How far somebody who goes through a program has come: what of each lane has started, and what is
/// complete. Whoever goes through it says what an operation does, and when.

#include <array>
#include <cstdint>
#include <vector>

#include "engine/schedule/expand.h"
#include "engine/schedule/lane_progress.h"
#include "engine/schedule/program.h"

namespace ibcoll {

/// One lane. It consists of *items*: operations, each piece of one in a stream counted apart.
class LaneCursor {
  auto relaxed_op() const {
    return [this](uint32_t item) { return op(item).relaxed; };
  }

 public:
  static constexpr uint32_t kNone = LaneProgress::kNone;

  /// At the beginning of a lane; `items`: what it consists of, empty if every operation is one.
  /// `ops` must outlive the cursor.
  LaneCursor(const OpList& ops, std::vector<Item> items);
  LaneCursor(LaneCursor&& other) noexcept;
  LaneCursor& operator=(LaneCursor&& other) noexcept;
  ~LaneCursor();

  uint32_t size() const { return progress_.size(); }
  /// The place of an item's operation in the lane.
  uint32_t place(uint32_t item) const { return items_.empty() ? item : items_[item].op; }
  Op op(uint32_t item) const { return ops_[place(item)]; }
  /// In a stream an item is this piece only, else all pieces of its slots.
  bool streamed(uint32_t item) const { return !items_.empty() && items_[item].streamed; }
  uint32_t piece(uint32_t item) const { return items_.empty() ? 0 : items_[item].piece; }
  /// Whether it may start before others that stand before it: of a relaxed run, or of a stream in
  /// strands.
  Op::Relaxed relaxed(uint32_t item) const {
    return items_.empty() ? ops_[item].relaxed : items_[item].relaxed;
  }
  /// Op::after, counted in items.
  std::array<uint32_t, kLanes> after(uint32_t item) const {
    return items_.empty() ? ops_[item].after : items_[item].after;
  }
  /// Of a signal: in a stream of `pieces` one of them sends the token.
  bool sends_token(uint32_t item, uint32_t pieces) const {
    return !streamed(item) || piece(item) == signal_piece(op(item), pieces);
  }

  /// All items before it have started.
  uint32_t next() const { return progress_.next(); }
  /// All items before it are complete.
  uint32_t complete() const { return progress_.complete(); }
  bool all_started() const { return progress_.all_started(); }
  bool all_complete() const { return progress_.all_complete(); }

  /// The item that starts next (LaneProgress::pick()): nobody is so late that strands overtake each
  /// other.
  template <class MayStart>
  uint32_t pick(uint32_t reach, const MayStart& may_start) {
    return progress_.pick(reach, relaxed_op(), may_start);
  }

  void start(uint32_t item) { progress_.start(item, relaxed_op()); }
  void finish(uint32_t item) { progress_.finish(item); }

 private:
  OpReader ops_;
  std::vector<Item> items_;
  LaneProgress progress_;
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
    const auto after = lanes_[lane].after(item);
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
