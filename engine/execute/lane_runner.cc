#include "engine/execute/lane_runner.h"

#include <algorithm>
#include <cstring>

#include "engine/base/copy.h"

namespace ibcoll {
namespace {

/// What one copy moves at most before the network is looked after.
constexpr size_t kPieceBytes = 128 * 1024;
/// How far a relaxed run is searched for something that can start.
constexpr uint32_t kSearch = 64;

}  // namespace

void LaneRunner::retire(LaneState& lane) {
  while (!lane.pending.empty()) {
    const PendingPut& put = lane.pending.front();
    const bool done = put.local
                          ? executor_.local_.completed(put.peer, static_cast<uint32_t>(put.ticket))
                          : executor_.network_->completed(put.peer) >= put.ticket;
    if (!done) return;
    lane.pending.pop();
  }
}

/// Whether everything the operation comes after is complete. In streams piece p depends on piece p
/// of what feeds it.
bool LaneRunner::ready(const Op& op, Part part) {
  for (int i = 0; i < kLanes; ++i) {
    LaneState& lane = run_.lanes[i];
    if (op.after[i] <= lane.complete()) continue;
    retire(lane);
    if (op.after[i] <= lane.complete()) continue;
    if (part.pieces == 1 || lane.next != lane.stream_first || !lane.pending.empty()) return false;
    const uint32_t done = lane.piece > part.piece    ? run_.program->streams[lane.stream].count
                          : lane.piece == part.piece ? lane.stream_position
                                                     : 0;
    if (op.after[i] > lane.next + done) return false;
  }
  return true;
}

bool LaneRunner::advance(LaneState& lane) {
  bool moved = false;
  while (lane.next < lane.size) {
    const Op& op = lane.ops[lane.next];
    if (lane.next == lane.stream_first) [[unlikely]] {
      const Outcome outcome = advance_stream(lane);
      if (outcome == Outcome::kBlocked) return moved;
      moved = true;
      if (outcome == Outcome::kMoved) return true;
      continue;
    }
    if (op.relaxed == Op::Relaxed::kFirstOfRun || lane.run_end != 0) {
      moved |= advance_run(lane);
      if (lane.run_end != 0) return moved;
      continue;
    }
    if (!ready(op)) return moved;
    const Outcome outcome = execute(lane, op, lane.next, {});
    if (outcome == Outcome::kBlocked) return moved;
    moved = true;
    if (outcome == Outcome::kMoved) return true;
    ++lane.next;
  }
  if (!lane.pending.empty()) {
    retire(lane);
    moved |= lane.pending.empty();
  }
  return moved;
}

/// Goes once over a relaxed run and starts what can be started. run_end is 0 when the whole run has
/// been.
bool LaneRunner::advance_run(LaneState& lane) {
  if (lane.run_end == 0) {
    lane.run_begin = lane.next;
    lane.run_end = lane.next + 1;
    while (lane.run_end < lane.size && lane.ops[lane.run_end].relaxed == Op::Relaxed::kInRun)
      ++lane.run_end;
    lane.started.assign(lane.run_end - lane.run_begin, 0);
  }
  bool moved = false;
  // A pull that is under way is finished first: it holds the lane's progress.
  if (lane.progress != 0) {
    const uint32_t position = lane.partial;
    const Outcome outcome = execute(lane, lane.ops[position], position, {});
    if (outcome == Outcome::kBlocked) return false;
    if (outcome == Outcome::kMoved) return true;
    lane.started[position - lane.run_begin] = 1;
    moved = true;
  }
  const uint32_t end = std::min(lane.run_end, lane.next + kSearch);
  for (uint32_t position = lane.next; position < end; ++position) {
    if (lane.started[position - lane.run_begin] != 0) continue;
    const Op& op = lane.ops[position];
    if (!ready(op)) continue;
    const Outcome outcome = execute(lane, op, position, {});
    if (outcome == Outcome::kBlocked) continue;
    moved = true;
    if (outcome == Outcome::kMoved) {
      lane.partial = position;
      break;
    }
    lane.started[position - lane.run_begin] = 1;
  }
  while (lane.next < lane.run_end && lane.started[lane.next - lane.run_begin] != 0) ++lane.next;
  if (lane.next == lane.run_end) lane.run_end = 0;
  return moved;
}

/// Goes on with the stream that begins at lane.next; kDone when its last piece is through.
LaneRunner::Outcome LaneRunner::advance_stream(LaneState& lane) {
  const Stream& stream = run_.program->streams[lane.stream];
  bool moved = false;
  while (lane.piece < run_.binding.pieces) {
    while (lane.stream_position < stream.count) {
      const uint32_t position = stream.first + lane.stream_position;
      const Op& op = lane.ops[position];
      const Outcome outcome = ready(op)
                                  ? execute(lane, op, position, {lane.piece, run_.binding.pieces})
                                  : Outcome::kBlocked;
      if (outcome == Outcome::kBlocked) return moved ? Outcome::kMoved : Outcome::kBlocked;
      moved = true;
      if (outcome == Outcome::kMoved) return outcome;
      ++lane.stream_position;
    }
    lane.stream_position = 0;
    ++lane.piece;
  }
  lane.piece = 0;
  lane.next = stream.first + stream.count;
  run_.next_stream(lane, lane.stream + 1);
  return Outcome::kDone;
}

LaneRunner::Outcome LaneRunner::execute(LaneState& lane, const Op& op, uint32_t position,
                                        Part part) {
  switch (op.kind) {
    case OpKind::kCopy:
    case OpKind::kReduce:
      return copy(lane, op, part);
    case OpKind::kPut:
      return local(op.peer) ? put_local(lane, op, position, part, false)
                            : put_network(lane, op, position, part);
    case OpKind::kExpect:
      if (local(op.peer)) return pull(lane, op, part, false);
      if (run_.arrived[op.peer] == run_.arrivals_used[op.peer]) return Outcome::kBlocked;
      ++run_.arrivals_used[op.peer];
      return Outcome::kDone;
    case OpKind::kSignal:
      if (local(op.peer)) return put_local(lane, op, position, part, true);
      return executor_.send_token(run_, op.peer) ? Outcome::kDone : Outcome::kBlocked;
    case OpKind::kWait:
      if (local(op.peer)) return pull(lane, op, part, true);
      if (run_.tokens[op.peer] == run_.tokens_used[op.peer]) return Outcome::kBlocked;
      ++run_.tokens_used[op.peer];
      return Outcome::kDone;
    case OpKind::kExpose:
      return executor_.send_exposure(run_, op) ? Outcome::kDone : Outcome::kBlocked;
    case OpKind::kWaitExposed:
      return all_exposed(op) ? Outcome::kDone : Outcome::kBlocked;
    case OpKind::kForward:
      return run_.forwarded >= op.threshold ? Outcome::kDone : Outcome::kBlocked;
    case OpKind::kGateSignal:
      if (!open_gates()) return Outcome::kBlocked;
      executor_.local_.gate_signal(*run_.group->gate_slot, run_.key.sequence, ++run_.gates);
      return Outcome::kDone;
    case OpKind::kGateWait:
      return gates_passed(op) ? Outcome::kDone : Outcome::kBlocked;
  }
  return Outcome::kBlocked;
}

LaneRunner::Outcome LaneRunner::copy(LaneState& lane, const Op& op, Part part) {
  const Binding& binding = run_.binding;
  if (op.kind == OpKind::kReduce) {
    const size_t length = binding.length(op.dst_buffer, op.dst_first, op.count);
    const size_t begin = part.begin(length);
    binding.reduce(binding.address(op.dst_buffer, op.dst_first) + begin,
                   binding.address(op.src_buffer, op.src_first) + begin, part.end(length) - begin);
    return Outcome::kDone;
  }
  if (binding.unequal && op.count != 1) {
    // Slots that follow each other in number may lie anywhere.
    for (uint32_t i = 0; i < op.count; ++i) {
      const size_t length = binding.length(op.src_buffer, op.src_first + i, 1);
      const size_t begin = part.begin(length);
      if (part.end(length) == begin) continue;
      copy_plain(binding.address(op.dst_buffer, op.dst_first + i) + begin,
                 binding.address(op.src_buffer, op.src_first + i) + begin,
                 part.end(length) - begin);
    }
    return Outcome::kDone;
  }
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  const size_t begin = part.begin(length) + lane.progress;
  const size_t piece = std::min(kPieceBytes, part.end(length) - begin);
  if (piece != 0) {
    std::byte* target = binding.address(op.dst_buffer, op.dst_first) + begin;
    const std::byte* source = binding.address(op.src_buffer, op.src_first) + begin;
    if (run_.streaming) {
      copy_streaming(target, source, piece);
    } else {
      copy_plain(target, source, piece);
    }
  }
  if (begin + piece < part.end(length)) {
    lane.progress += piece;
    return Outcome::kMoved;
  }
  lane.progress = 0;
  return Outcome::kDone;
}

LaneRunner::Outcome LaneRunner::put_local(LaneState& lane, const Op& op, uint32_t position,
                                          Part part, bool token) {
  MessageKey key = run_.key;
  key.token = token;
  const std::byte* source = nullptr;
  size_t bytes = 0;
  if (!token) {
    const size_t length = run_.binding.length(op.src_buffer, op.src_first, op.count);
    source = run_.binding.address(op.src_buffer, op.src_first) + part.begin(length);
    bytes = part.end(length) - part.begin(length);
  }
  const Rank peer = job_rank(op.peer);
  uint32_t ticket = 0;
  switch (executor_.local_.offer(peer, key, source, bytes, ticket)) {
    case Offer::kNoRoom:
      return Outcome::kBlocked;
    case Offer::kPending:
      lane.pending.push({lane.run_end != 0 ? lane.run_begin : position, peer, true, ticket});
      return Outcome::kDone;
    case Offer::kDone:
      break;
  }
  return Outcome::kDone;
}

LaneRunner::Outcome LaneRunner::put_network(LaneState& lane, const Op& op, uint32_t position,
                                            Part part) {
  PeerExposure& exposure = run_.exposed[op.peer];
  if (exposure.count <= op.exposure) return Outcome::kBlocked;
  const Binding& binding = run_.binding;
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  RemoteAddress target = op.dst_buffer == Buffer::kRecv ? exposure.recv : exposure.scratch;
  if (binding.unequal) {
    if (exposure.next_landing == exposure.landings_end) {
      executor_.mismatch(run_, op.peer, "expects fewer blocks than are sent to it");
      return Outcome::kBlocked;
    }
    const Landing& landing = run_.landings[exposure.next_landing];
    if (landing.bytes != length) {
      executor_.mismatch(run_, op.peer,
                         fmt::format("expects {} bytes where rank {} sends {}", landing.bytes,
                                     run_.group->me, length));
      return Outcome::kBlocked;
    }
    target.address = landing.address;
  } else {
    target.address += op.dst_first * binding.block_bytes;
  }
  target.address += part.begin(length);
  const MemoryKey& source_key = op.src_buffer == Buffer::kSend   ? run_.send_key
                                : op.src_buffer == Buffer::kRecv ? run_.recv_key
                                                                 : run_.scratch_key;
  const Rank peer = job_rank(op.peer);
  if (!executor_.network_->put(
          peer, binding.address(op.src_buffer, op.src_first) + part.begin(length), source_key,
          target, part.end(length) - part.begin(length), exposure.cell + run_.group->me)) {
    return Outcome::kBlocked;
  }
  if (binding.unequal && part.last()) ++exposure.next_landing;
  lane.pending.push({lane.run_end != 0 ? lane.run_begin : position, peer, false,
                     executor_.network_->posted(peer)});
  return Outcome::kDone;
}

LaneRunner::Outcome LaneRunner::pull(LaneState& lane, const Op& op, Part part, bool token) {
  MessageKey key = run_.key;
  key.token = token;
  std::byte* target = nullptr;
  size_t bytes = 0;
  if (!token) {
    const size_t length = run_.binding.length(op.dst_buffer, op.dst_first, op.count);
    target = run_.binding.address(op.dst_buffer, op.dst_first) + part.begin(length);
    bytes = part.end(length) - part.begin(length);
  }
  switch (
      executor_.local_.pull(job_rank(op.peer), key, target, bytes, run_.streaming, lane.progress)) {
    case Pull::kNotYet:
      return Outcome::kBlocked;
    case Pull::kPartial:
      return Outcome::kMoved;
    case Pull::kDone:
      return Outcome::kDone;
    case Pull::kMismatch:
      executor_.mismatch(run_, op.peer, executor_.local_.mismatch());
      return Outcome::kBlocked;
    case Pull::kFailed:
      executor_.abort({job_rank(op.peer), ErrorCode::kPeerFailed, executor_.local_.mismatch()});
      return Outcome::kBlocked;
  }
  return Outcome::kBlocked;
}

bool LaneRunner::all_exposed(const Op& op) const {
  const auto members = run_.group->shape.members(op.peer);
  return std::all_of(members.begin(), members.end(),
                     [&](Rank rank) { return run_.exposed[rank].count >= op.threshold; });
}

bool LaneRunner::open_gates() {
  GroupState& group = *run_.group;
  if (group.gate_slot) return true;
  std::vector<Rank> members;
  for (const Rank rank : group.shape.members(group.shape.server_of(group.me)))
    members.push_back(job_rank(rank));
  Result<uint32_t> slot = executor_.local_.open_gates(group.key, members);
  if (!slot) {
    executor_.fail_with(slot.error());
    return false;
  }
  group.gate_slot = *slot;
  return true;
}

bool LaneRunner::gates_passed(const Op& op) {
  if (!open_gates()) return false;
  const GroupState& group = *run_.group;
  const auto members = group.shape.members(group.shape.server_of(group.me));
  return std::all_of(members.begin(), members.end(), [&](Rank rank) {
    return executor_.local_.gate_passed(job_rank(rank), *group.gate_slot, run_.key.sequence,
                                        op.threshold);
  });
}

}  // namespace ibcoll
