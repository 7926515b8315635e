#pragma once
/// Memory that need not be contiguous, and copies between pieces of it: the one home of all that
/// walks through strides.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ibcoll {

/// Where the bytes of one block lie: `count` runs of `run` bytes, `stride` apart, and all that
/// `outer_count` times, `outer_stride` apart; in this order they are the block's bytes. In the form
/// that canonical() gives. Without pointers, so that ranks of a server read each other's.
struct StridedBlock {
  int64_t offset = 0;  ///< of the first byte, from the base of the buffer
  uint64_t bytes = 0;  ///< of all runs
  uint64_t run = 0;
  uint64_t count = 1;
  int64_t stride = 0;
  uint64_t outer_count = 1;
  int64_t outer_stride = 0;

  bool is_contiguous() const { return run == bytes; }
  /// The part of the buffer, in bytes from its base, that holds all runs of a block with bytes.
  struct Reach {
    int64_t begin, end;
  };
  Reach reach() const;
};

/// The same bytes in as few and as long runs as there can be: what lies side by side is one run.
/// `block.bytes` is set; a block of no bytes has no runs.
StridedBlock canonical(StridedBlock block);

/// Whether one byte is, for sure, part of two runs of it.
bool overlaps_itself(const StridedBlock& block);

/// Bytes in their order: those of `count` blocks one after the other, from byte `begin` on.
struct StridedView {
  std::byte* base = nullptr;
  const StridedBlock* blocks = nullptr;  ///< null: they lie side by side from `base` on
  uint32_t count = 0;
  uint64_t begin = 0;

  /// What is left of it behind so many bytes.
  StridedView from(uint64_t bytes) const { return {base, blocks, count, begin + bytes}; }
};

/// Walks through the bytes of a view, run by run.
class StridedCursor {
 public:
  /// Stands on the view's first byte, which there must be.
  explicit StridedCursor(const StridedView& view);

  std::byte* place() const { return run_begin_ + in_run_; }
  /// Bytes that lie side by side from here on.
  uint64_t left() const { return block_ == nullptr ? UINT64_MAX : block_->run - in_run_; }
  /// Pieces of `unit` bytes, at most left(), that lie at equal distances from here on: how many,
  /// and how far apart.
  struct Row {
    uint64_t count;
    int64_t stride;
  };
  Row row(uint64_t unit) const {
    if (block_ == nullptr) return {UINT64_MAX, static_cast<int64_t>(unit)};
    if (unit == block_->run) return {block_->count - inner_, block_->stride};
    return {left() / unit, static_cast<int64_t>(unit)};
  }
  /// Goes on behind `count` such pieces.
  void skip_row(uint64_t unit, uint64_t count) {
    if (block_ != nullptr && unit == block_->run) {
      next_run(count);
    } else {
      skip(unit * count);
    }
  }
  /// Goes on by so many bytes, at most left().
  void skip(uint64_t bytes) {
    in_run_ += bytes;
    if (block_ != nullptr && in_run_ == block_->run) next_run(1);
  }

 private:
  void next_run(uint64_t runs);
  void enter(uint64_t at);

  std::byte* base_;
  const StridedBlock* block_;  ///< null: all bytes lie side by side
  const StridedBlock* end_;
  std::byte* run_begin_;
  uint64_t in_run_ = 0, inner_ = 0, outer_ = 0;
};

/// Copies the first `bytes` bytes of a view to those of another.
void copy_strided(const StridedView& to, const StridedView& from, uint64_t bytes);

}  // namespace ibcoll
