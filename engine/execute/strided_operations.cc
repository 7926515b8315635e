#include "engine/execute/strided_operations.h"

#include <algorithm>
#include <array>
#include <span>

namespace ibcoll {
namespace {

/// The most segments that are given to one put.
constexpr size_t kMaxGathered = 32;
IBCOLL_LIMIT(size_t, kGatheredAtOnce, kMaxGathered);

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

OpOutcome StridedOperations::copy(LaneState& lane, const Op& op, Part part) {
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
    const size_t piece =
        op.count == at_once ? std::min(LaneServices::kPieceBytes, end - begin) : end - begin;
    copy_strided(target.from(begin), source.from(begin), piece);
    if (begin + piece < end) {
      lane.progress += piece;
      return OpOutcome::kMoved;
    }
    lane.progress = 0;
  }
  return OpOutcome::kDone;
}

Offer StridedOperations::offer(const Op& op, Part part, uint32_t& ticket) {
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  const size_t begin = part_begin(part, length), bytes = part_end(part, length) - begin;
  const StridedView source = binding.view(op.src_buffer, op.src_first, op.count).from(begin);
  const StridedBuffer* const strided = binding[op.src_buffer].strided;
  const Rank peer = to_job_[op.peer];
  LocalTransport& local = services_.local;
  return strided == nullptr
             ? local.offer(peer, call_.key, source.base + source.begin, bytes, ticket)
             : local.offer_strided(peer, call_.key, strided->memory, source, bytes, ticket);
}

Pull StridedOperations::pull(LaneState& lane, const Op& op, Part part) {
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.dst_buffer, op.dst_first, op.count);
  const size_t begin = part_begin(part, length), bytes = part_end(part, length) - begin;
  const StridedView target = binding.view(op.dst_buffer, op.dst_first, op.count).from(begin);
  const Rank peer = to_job_[op.peer];
  LocalTransport& local = services_.local;
  return binding[op.dst_buffer].strided != nullptr
             ? local.pull_strided(peer, call_.key, target, bytes, lane.progress)
             : local.pull(peer, call_.key, target.base + target.begin, bytes, call_.streaming,
                          lane.progress);
}

/// What stands before the bytes in their slots has been written before, too: pieces come in order.
bool StridedOperations::fill_image(const Op& op, Part part) {
  const Binding& binding = call_.binding;
  const StridedBuffer* const strided = binding[op.src_buffer].strided;
  if (strided == nullptr) return true;
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  size_t left = LaneServices::kPieceBytes;
  bool all = true;
  for_each_slot(binding, op.src_buffer, op.src_first, op.count, part_begin(part, length),
                part_end(part, length), [&](uint32_t slot, uint64_t, uint64_t slot_end) {
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

/// Whether all slots that an operation reads have long runs, and nothing of them is in the image.
bool StridedOperations::is_gathered(const Op& op) const {
  if (call_.remote.regions_of(op.src_buffer).gathered == kNone) return false;
  const StridedBuffer& strided = *call_.binding[op.src_buffer].strided;
  for (uint32_t slot = op.src_first; slot < op.src_first + op.count; ++slot) {
    if (strided.in_image[slot] != 0 || !strided.has_long_runs(slot, op.count == 1)) return false;
  }
  return true;
}

bool StridedOperations::puts_runs(const Op& op, Part part) const {
  // What has begun so ends so, whatever has been packed since.
  const PeerState* const peer = call_.remote.peers.find(to_job_[op.peer]);
  if (peer != nullptr && peer->put_bytes != 0) return true;
  const size_t length = call_.binding.length(op.src_buffer, op.src_first, op.count);
  return part_begin(part, length) != part_end(part, length) && is_gathered(op);
}

/// A put of an operation that may take several: those that follow each other end with the last one.
void StridedOperations::note_put(LaneState& lane, Rank peer, uint32_t position, Part part) {
  const uint64_t ticket = services_.network->posted(peer);
  if (!lane.pending.empty()) {
    PendingPut& latest = lane.pending.back();
    if (!latest.local && latest.at == position && latest.piece == part.piece) {
      latest.ticket = ticket;
      return;
    }
  }
  lane.note_pending({peer, false, ticket}, position, part.piece);
}

/// Only the last put says that the message is there. No second message to that peer is begun
/// before.
OpOutcome StridedOperations::put_runs(LaneState& lane, const Op& op, uint32_t position, Part part,
                                      RemoteAddress target) {
  const Rank peer = to_job_[op.peer];
  const Binding& binding = call_.binding;
  const BufferRegions& regions = call_.remote.regions_of(op.src_buffer);
  NetworkTransport& network = *services_.network;
  PeerState& state = call_.remote.peers[peer];
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  const size_t begin = part_begin(part, length), bytes = part_end(part, length) - begin;
  std::array<PutSegment, kMaxGathered> segments;
  const size_t most = std::min(network.max_put_segments(), kGatheredAtOnce);
  StridedCursor cursor(
      binding.view(op.src_buffer, op.src_first, op.count).from(begin + state.put_bytes));
  for (OpOutcome refused = OpOutcome::kBlocked; state.put_bytes < bytes;
       refused = OpOutcome::kMoved) {
    size_t count = 0, put = 0;
    while (state.put_bytes + put < bytes) {
      const std::byte* const place = cursor.place();
      const size_t run = std::min<uint64_t>(cursor.left(), bytes - state.put_bytes - put);
      if (count != 0 && segments[count - 1].source + segments[count - 1].bytes == place) {
        segments[count - 1].bytes += run;
      } else if (count < most) {
        segments[count++] = {place, run};
      } else {
        break;
      }
      put += run;
      cursor.skip(run);
    }
    const bool last = state.put_bytes + put == bytes;
    if (!network.put_segments(peer, std::span(segments).first(count),
                              regions.registered[regions.gathered].key,
                              {target.address + state.put_bytes, target.key},
                              last ? uint64_t{state.cell} : NetworkTransport::kNoSignal))
      return refused;
    state.put_bytes += put;
    note_put(lane, peer, position, part);
  }
  state.put_bytes = 0;
  if (binding.unequal && part.last()) state.landings.pop(call_.remote.landings);
  return OpOutcome::kDone;
}

OpOutcome StridedOperations::expect(LaneState& lane, const Op& op, Part part) {
  // Progress: of an arrival that has been taken.
  if (lane.progress == 0 && !take_one(call_.remote.peers[to_job_[op.peer]].arrivals))
    return OpOutcome::kBlocked;
  const Binding& binding = call_.binding;
  const StridedBuffer* const strided = binding[op.dst_buffer].strided;
  if (strided == nullptr) return OpOutcome::kDone;
  const size_t length = binding.length(op.dst_buffer, op.dst_first, op.count);
  const size_t begin = part_begin(part, length) + lane.progress, end = part_end(part, length);
  const size_t piece = std::min(LaneServices::kPieceBytes, end - begin);
  for_each_slot(binding, op.dst_buffer, op.dst_first, op.count, begin, begin + piece,
                [&](uint32_t slot, uint64_t from, uint64_t to) {
                  copy_strided(binding.view(op.dst_buffer, slot, 1).from(from),
                               {binding.address(op.dst_buffer, slot) + from}, to - from);
                  strided->in_image[slot] = std::max(strided->in_image[slot], to);
                });
  if (begin + piece < end) {
    lane.progress += piece;
    return OpOutcome::kMoved;
  }
  lane.progress = 0;
  return OpOutcome::kDone;
}

}  // namespace ibcoll
