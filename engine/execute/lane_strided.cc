/// What operations do where slots lie in memory of any layout (StridedBuffer).
#include <algorithm>

#include "engine/execute/lane_runner.h"

namespace ibcoll {
namespace {

/// Calls part(slot, begin, end) for each slot of which the bytes from `begin` to `end` of slots
/// that follow each other hold some: which of its own bytes those are.
template <class Part>
void for_each_slot(const Binding& binding, Buffer buffer, uint32_t first, uint32_t count,
                   uint64_t begin, uint64_t end, Part&& part) {
  uint64_t slot_begin = 0;
  for (uint32_t slot = first; slot < first + count && slot_begin < end; ++slot) {
    const uint64_t slot_end = slot_begin + binding.length(buffer, slot, 1);
    const uint64_t from = std::max(begin, slot_begin), to = std::min(end, slot_end);
    if (from < to) part(slot, from - slot_begin, to - slot_begin);
    slot_begin = slot_end;
  }
}

}  // namespace

LaneRunner::Outcome LaneRunner::copy_between_views(LaneState& lane, const Op& op, Part part) {
  const Binding& binding = call_.binding;
  // Slots that are not strided may lie anywhere where they differ in length: one by one.
  const uint32_t at_once = binding.unequal ? 1 : op.count;
  for (uint32_t i = 0; i < op.count; i += at_once) {
    const StridedView target = binding.view(op.dst_buffer, op.dst_first + i, at_once);
    const StridedView source = binding.view(op.src_buffer, op.src_first + i, at_once);
    // In place: the block is where it belongs.
    if (target.base == source.base && target.blocks == source.blocks &&
        target.begin == source.begin)
      continue;
    const size_t length = binding.length(op.src_buffer, op.src_first + i, at_once);
    const size_t begin = part_begin(part, length) + lane.progress, end = part_end(part, length);
    const size_t piece = op.count == at_once ? std::min(kPieceBytes, end - begin) : end - begin;
    copy_strided(target.from(begin), source.from(begin), piece);
    if (begin + piece < end) {
      lane.progress += piece;
      return Outcome::kMoved;
    }
    lane.progress = 0;
  }
  return Outcome::kDone;
}

/// Sees to it that the image holds those bytes of the slots that an operation reads: what has come
/// through the network is there already. False: part of it has been copied. What stands before them
/// in their slots has been written before, too: pieces come in order.
bool LaneRunner::put_in_image(const Op& op, size_t begin, size_t end) {
  const Binding& binding = call_.binding;
  const StridedBuffer* const strided = binding[op.src_buffer].strided;
  if (strided == nullptr) return true;
  size_t left = kPieceBytes;
  bool all = true;
  for_each_slot(binding, op.src_buffer, op.src_first, op.count, begin, end,
                [&](uint32_t slot, uint64_t, uint64_t slot_end) {
                  uint64_t& held = strided->in_image[slot];
                  if (held >= slot_end) return;
                  const size_t piece = std::min<uint64_t>(left, slot_end - held);
                  copy_strided({binding.address(op.src_buffer, slot) + held},
                               binding.view(op.src_buffer, slot, 1).from(held), piece);
                  held += piece;
                  left -= piece;
                  all = all && held >= slot_end;
                });
  return all;
}

/// Data from another server, which lands in the image.
LaneRunner::Outcome LaneRunner::expect_strided(LaneState& lane, const Op& op, Part part) {
  // Progress: of an arrival that has been taken.
  if (lane.progress == 0 && !take_one(call_.peers[job_rank(op.peer)].arrivals))
    return Outcome::kBlocked;
  const Binding& binding = call_.binding;
  const StridedBuffer* const strided = binding[op.dst_buffer].strided;
  if (strided == nullptr) return Outcome::kDone;
  const size_t length = binding.length(op.dst_buffer, op.dst_first, op.count);
  const size_t begin = part_begin(part, length) + lane.progress, end = part_end(part, length);
  const size_t piece = std::min(kPieceBytes, end - begin);
  for_each_slot(binding, op.dst_buffer, op.dst_first, op.count, begin, begin + piece,
                [&](uint32_t slot, uint64_t from, uint64_t to) {
                  copy_strided(binding.view(op.dst_buffer, slot, 1).from(from),
                               {binding.address(op.dst_buffer, slot) + from}, to - from);
                  strided->in_image[slot] = std::max(strided->in_image[slot], to);
                });
  if (begin + piece < end) {
    lane.progress += piece;
    return Outcome::kMoved;
  }
  lane.progress = 0;
  return Outcome::kDone;
}

}  // namespace ibcoll
