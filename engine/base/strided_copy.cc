#include "engine/base/strided_copy.h"

#include <cstring>

namespace ibcoll {
namespace {

/// Strides may be negative, and a base may lie outside of what is used: no pointer arithmetic of
/// the language's.
std::byte* moved(std::byte* place, int64_t bytes) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(place) +
                                      static_cast<uintptr_t>(bytes));
}

int64_t times(uint64_t count, int64_t stride) {
  return static_cast<int64_t>(count * static_cast<uint64_t>(stride));
}

using Row = StridedCursor::Row;

/// `count` pieces of kBytes bytes, which the compiler moves without a call; 0: of `bytes` bytes.
template <size_t kBytes>
void copy_row(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride,
              uint64_t count, uint64_t bytes = kBytes) {
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, kBytes != 0 ? kBytes : bytes);
    to += to_stride;
    from += from_stride;
  }
}

void copy_row(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride,
              uint64_t unit, uint64_t count) {
  switch (unit) {
    case 1:
      return copy_row<1>(to, to_stride, from, from_stride, count);
    case 2:
      return copy_row<2>(to, to_stride, from, from_stride, count);
    case 4:
      return copy_row<4>(to, to_stride, from, from_stride, count);
    case 8:
      return copy_row<8>(to, to_stride, from, from_stride, count);
    case 12:
      return copy_row<12>(to, to_stride, from, from_stride, count);
    case 16:
      return copy_row<16>(to, to_stride, from, from_stride, count);
    case 24:
      return copy_row<24>(to, to_stride, from, from_stride, count);
    case 32:
      return copy_row<32>(to, to_stride, from, from_stride, count);
    case 64:
      return copy_row<64>(to, to_stride, from, from_stride, count);
    default:
      return copy_row<0>(to, to_stride, from, from_stride, count, unit);
  }
}

}  // namespace

StridedBlock::Reach StridedBlock::reach() const {
  const int64_t inner = times(count - 1, stride), outer = times(outer_count - 1, outer_stride);
  return {offset + std::min<int64_t>(inner, 0) + std::min<int64_t>(outer, 0),
          offset + std::max<int64_t>(inner, 0) + std::max<int64_t>(outer, 0) +
              static_cast<int64_t>(run)};
}

StridedBlock canonical(StridedBlock block) {
  if (block.bytes == 0) return {.offset = block.offset, .bytes = 0, .run = 0};
  if (block.count == 1 ||
      (block.outer_count > 1 && block.outer_stride == times(block.count, block.stride))) {
    // Elements that go on where the one before would: one row of runs.
    block.stride = block.count == 1 ? block.outer_stride : block.stride;
    block.count *= block.outer_count;
    block.outer_count = 1;
  }
  if (block.outer_count == 1) block.outer_stride = 0;
  if (block.count > 1 && block.stride == static_cast<int64_t>(block.run)) {
    block.run *= block.count;
    block.count = 1;
    if (block.outer_count > 1) return canonical(block);
  }
  if (block.count == 1) block.stride = 0;
  return block;
}

bool overlaps_itself(const StridedBlock& block) {
  const auto closer = [&](uint64_t count, int64_t stride) {
    const auto run = static_cast<int64_t>(block.run);
    return count > 1 && stride < run && stride > -run;
  };
  return closer(block.count, block.stride) || closer(block.outer_count, block.outer_stride);
}

StridedCursor::StridedCursor(const StridedView& view)
    : base_(view.base), block_(view.blocks), end_(view.blocks + view.count) {
  if (block_ == nullptr) {
    run_begin_ = moved(base_, static_cast<int64_t>(view.begin));
    return;
  }
  uint64_t at = view.begin;
  for (; at >= block_->bytes && block_ + 1 < end_; ++block_) at -= block_->bytes;
  enter(at);
}

/// Stands on a byte of block_.
void StridedCursor::enter(uint64_t at) {
  const uint64_t run = std::max<uint64_t>(block_->run, 1);
  const uint64_t number = at / run;
  in_run_ = at - number * run;
  outer_ = block_->count == 1 ? number : number / block_->count;
  inner_ = number - outer_ * block_->count;
  run_begin_ = moved(
      base_, block_->offset + times(inner_, block_->stride) + times(outer_, block_->outer_stride));
}

/// Behind so many runs, this one included; at most what is left of the row.
void StridedCursor::next_run(uint64_t runs) {
  in_run_ = 0;
  inner_ += runs;
  if (inner_ < block_->count) {
    run_begin_ = moved(run_begin_, times(runs, block_->stride));
    return;
  }
  inner_ = 0;
  if (++outer_ < block_->outer_count) {
    run_begin_ = moved(base_, block_->offset + times(outer_, block_->outer_stride));
    return;
  }
  // Behind the last byte nobody looks.
  const StridedBlock* next = block_ + 1;
  while (next < end_ && next->bytes == 0) ++next;
  if (next >= end_) {
    outer_ = block_->outer_count - 1;
    return;
  }
  block_ = next;
  enter(0);
}

void copy_strided(const StridedView& to, const StridedView& from, uint64_t bytes) {
  if (bytes == 0) return;
  StridedCursor out(to), in(from);
  while (bytes > 0) {
    const uint64_t unit = std::min(out.left(), in.left());
    if (unit >= bytes) {
      std::memcpy(out.place(), in.place(), bytes);
      return;
    }
    const Row to_row = out.row(unit), from_row = in.row(unit);
    const uint64_t count = std::min({to_row.count, from_row.count, bytes / unit});
    copy_row(out.place(), to_row.stride, in.place(), from_row.stride, unit, count);
    bytes -= unit * count;
    out.skip_row(unit, count);
    in.skip_row(unit, count);
  }
}

}  // namespace ibcoll
