#include "engine/execute/lane_runner.h"

#include <algorithm>
#include <bit>

#include "engine/base/clock.h"
#include "engine/base/copy.h"

namespace ibcoll {
namespace {

/// How far a relaxed run is searched for something that can start: the bits of LaneState::started.
constexpr uint32_t kSearch = 64;

/// How long a peer that is not ready holds up what is for others and stands behind: longer than
/// exposures of ranks that make a call together are apart.
constexpr int64_t kPatienceNs = 50'000;

}  // namespace

/// Whether the source of a put may be overwritten.
bool LaneRunner::is_complete(PendingPut& put) {
  if (!put.local) return services_.network->completed(put.peer) >= put.ticket;
  // Tickets that have ended may be another message's by now.
  if (!put.ended)
    put.ended = services_.local.completed(put.peer, static_cast<uint32_t>(put.ticket));
  return put.ended;
}

/// The same, of a put that is to a dead rank once it has been taken back.
bool LaneRunner::has_ended(PendingPut& put) {
  if (is_complete(put)) return true;
  return put.local && call_.group->has_lost(put.peer) &&
         services_.local.retract(put.peer, static_cast<uint32_t>(put.ticket));
}

void LaneRunner::retire(LaneState& lane) {
  while (!lane.pending.empty() && has_ended(lane.pending.front())) lane.pending.pop();
  note_complete(lane);
}

bool LaneRunner::ready_by_now(const Op& op, Part part) {
  const uint32_t piece = part.streamed() ? part.piece : call_.binding.pieces - 1;
  for (int i = 0; i < kLanes; ++i) {
    LaneState& lane = call_.lanes[i];
    if (op.after[i] <= call_.complete[i]) continue;
    retire(lane);
    if (op.after[i] <= call_.complete[i]) continue;
    if (!has_started(lane, op.after[i], piece) || is_read(lane, op.after[i], piece)) return false;
  }
  return true;
}

/// Whether the first `count` operations of a lane have started: of a stream that goes on, all up to
/// that piece of the last one of them.
bool LaneRunner::has_started(const LaneState& lane, uint32_t count, uint32_t piece) const {
  if (count <= lane.next) return true;
  if (lane.next != lane.stream_first) return false;
  const uint32_t done = lane.piece > piece    ? call_.program->streams[lane.stream].count
                        : lane.piece == piece ? lane.stream_position
                                              : 0;
  return count <= lane.next + done;
}

/// Whether a put among the same is still read from. No more may be waited for than the verifier
/// lets: what stands behind may need the one that waits. Strands and relaxed runs start in any
/// order, so all puts are looked at; mostly the first one tells.
bool LaneRunner::is_read(LaneState& lane, uint32_t count, uint32_t piece) {
  if (lane.pending.empty()) return false;
  uint32_t first = count, end = count;  // of the stream that the last operation is in
  if (const Stream* const stream = stream_at(lane, count - 1); stream != nullptr && !stream->once) {
    first = stream->first;
    end = first + stream->count;
  }
  return std::any_of(lane.pending.begin(), lane.pending.end(), [&](PendingPut& put) {
    const bool before =
        put.at < first ||
        (put.at < end && (put.piece < piece || (put.piece == piece && put.at < count)));
    return before && !is_complete(put);
  });
}

/// The stream that an operation of a lane is in, which has started; null: none.
const Stream* LaneRunner::stream_at(const LaneState& lane, uint32_t place) const {
  const std::vector<Stream>& streams = call_.program->streams;
  const auto which = static_cast<Lane>(&lane - call_.lanes.data());
  // Streams stand in the order of lanes and places.
  for (size_t i = std::min<size_t>(lane.stream + size_t{1}, streams.size()); i-- > 0;) {
    const Stream& stream = streams[i];
    if (stream.lane != which || stream.first > place) continue;
    return place < stream.first + stream.count ? &stream : nullptr;
  }
  return nullptr;
}

/// A signal in a stream is sent with one of its pieces.
inline bool sends_token(const Op& op, Part part) {
  return !part.streamed() || part.piece == signal_piece(op, part.pieces);
}

/// A copy that needs no second look: true if that was one, and it is done.
[[gnu::always_inline]] inline bool LaneRunner::copy_short(const Op& op, Part part) {
  const Binding& binding = call_.binding;
  const size_t bytes = op.count * binding.block_bytes;
  if (part.streamed() || !call_.plain || bytes > kPieceBytes) return false;
  if (bytes == 0) return true;
  std::byte* target = binding.address(op.dst_buffer, op.dst_first);
  const std::byte* source = binding.address(op.src_buffer, op.src_first);
  // In place: the block is where it belongs, and the network may be reading it.
  if (target != source) copy_plain(target, source, bytes);
  return true;
}

/// Inline, for what a call of it would cost is a good part of what an operation without data costs.
[[gnu::always_inline]] inline LaneRunner::Outcome LaneRunner::execute_now(LaneState& lane,
                                                                          const Op& op,
                                                                          uint32_t position,
                                                                          Part part) {
  if (call_.binding.available != nullptr && !source_has_come(call_, op, part)) [[unlikely]]
    return Outcome::kBlocked;
  switch (op.kind) {
    case OpKind::kCopy:
      return copy_short(op, part) ? Outcome::kDone : copy(lane, op, part);
    case OpKind::kReduce:
      return reduce(lane, op, part);
    case OpKind::kPut:
      if (op.lane == Lane::kLocal) return put_local(lane, op, position, part, false);
      return call_.binding.eager ? put_mailed(op, part) : put_network(lane, op, position, part);
    case OpKind::kExpect:
      if (op.lane == Lane::kLocal) return pull(lane, op, part, false);
      if (call_.binding.eager) return take_mailed(op, part);
      if (call_.strided) [[unlikely]]
        return expect_strided(lane, op, part);
      return take_one(call_.remote.peers[job_rank(op.peer)].arrivals) ? Outcome::kDone
                                                                      : Outcome::kBlocked;
    case OpKind::kSignal:
      if (!sends_token(op, part)) return Outcome::kDone;
      if (op.lane == Lane::kLocal) return put_local(lane, op, position, part, true);
      return services_.mailroom.send_token(call_, op.peer) ? Outcome::kDone : Outcome::kBlocked;
    case OpKind::kWait:
      // The one operation that may stand in any lane.
      if (call_.group->shape.same_server(op.peer, call_.group->me))
        return pull(lane, op, part, true);
      return take_one(call_.remote.peers[job_rank(op.peer)].tokens) ? Outcome::kDone
                                                                    : Outcome::kBlocked;
    case OpKind::kExpose:
      return expose(lane, op);
    case OpKind::kWaitExposed:
      return call_.binding.eager || all_exposed(op) ? Outcome::kDone : Outcome::kBlocked;
    case OpKind::kForward:
      return call_.binding.eager || call_.remote.forwarded >= op.threshold ? Outcome::kDone
                                                                           : Outcome::kBlocked;
    case OpKind::kGateSignal:
      if (!open_gates()) return Outcome::kBlocked;
      services_.local.gate_signal(*call_.group->gate_slot, call_.key.sequence, ++call_.gates);
      return Outcome::kDone;
    case OpKind::kGateWait:
      return gates_passed(op) ? Outcome::kDone : Outcome::kBlocked;
  }
  return Outcome::kBlocked;
}

/// Of a call that is recorded.
[[gnu::noinline]] LaneRunner::Outcome LaneRunner::execute_and_note(LaneState& lane, const Op& op,
                                                                   uint32_t position, Part part) {
  const int64_t begin = now_ns();
  const Outcome outcome = execute_now(lane, op, position, part);
  const bool nothing = op.kind == OpKind::kSignal && !sends_token(op, part);
  if (outcome != Outcome::kBlocked && !nothing)
    call_.record->rank.ops.push_back({op.lane, position, part.piece, begin, now_ns()});
  return outcome;
}

[[gnu::always_inline]] inline LaneRunner::Outcome LaneRunner::execute(LaneState& lane, const Op& op,
                                                                      uint32_t position,
                                                                      Part part) {
  if (call_.record != nullptr) [[unlikely]]
    return execute_and_note(lane, op, position, part);
  return execute_now(lane, op, position, part);
}

bool LaneRunner::advance(LaneState& lane) {
  bool moved = false;
  while (lane.next < lane.size) {
    Outcome outcome = Outcome::kDone;
    if (lane.next == lane.stream_first) [[unlikely]] {
      outcome = advance_stream(lane);
    } else if (lane.ops[lane.next].relaxed == Op::Relaxed::kFirstOfRun || lane.in_run) {
      moved |= advance_run(lane);
      if (lane.in_run) return moved;
      continue;
    } else {
      const uint32_t before = lane.next;
      outcome = advance_in_order(lane);
      moved |= lane.next != before;
    }
    if (outcome == Outcome::kBlocked) return moved;
    moved = true;
    if (outcome == Outcome::kMoved) return true;
  }
  if (!lane.pending.empty()) {
    retire(lane);
    moved |= lane.pending.empty();
  }
  return moved;
}

/// Starts operations in their order up to the next stream or relaxed run; says what became of the
/// last one.
LaneRunner::Outcome LaneRunner::advance_in_order(LaneState& lane) {
  const uint32_t end = std::min(lane.size, lane.stream_first);
  uint32_t& complete = call_.complete[static_cast<size_t>(&lane - call_.lanes.data())];
  const Op* const ops = lane.ops;
  for (uint32_t next = lane.next; next < end;) {
    const Op& op = ops[next];
    if (op.relaxed == Op::Relaxed::kFirstOfRun) [[unlikely]]
      break;
    if (!ready(op)) return Outcome::kBlocked;
    const Outcome outcome = execute(lane, op, next, {});
    if (outcome != Outcome::kDone) return outcome;
    lane.next = ++next;
    complete = lane.pending.empty() ? next : lane.pending.front().position;
  }
  return Outcome::kDone;
}

/// Starts what can be started of a relaxed run. lane.in_run is false when all of it has been.
bool LaneRunner::advance_run(LaneState& lane) {
  if (!lane.in_run) {
    lane.in_run = true;
    lane.run_begin = lane.next;
    lane.started = 0;
  }
  bool moved = false;
  // What is under way is finished first: it holds the lane's progress.
  if (lane.progress != 0) {
    const uint32_t position = lane.partial;
    const Outcome outcome = execute(lane, lane.ops[position], position, {});
    if (outcome == Outcome::kBlocked) return false;
    if (outcome == Outcome::kMoved) return true;
    lane.started |= uint64_t{1} << (position - lane.next);
    moved = true;
  }
  for (;;) {
    const uint32_t first = lane.next;
    const uint32_t window = std::min(lane.size - first, kSearch);
    uint64_t started = lane.started;
    for (uint64_t left = ~started & (~uint64_t{0} >> (kSearch - window)); left != 0;
         left &= left - 1) {
      const auto i = static_cast<uint32_t>(std::countr_zero(left));
      const uint32_t position = first + i;
      const Op& op = lane.ops[position];
      if (op.relaxed != Op::Relaxed::kInRun && position != lane.run_begin) break;
      if (!ready(op)) continue;
      const Outcome outcome = execute(lane, op, position, {});
      if (outcome == Outcome::kBlocked) continue;
      moved = true;
      if (outcome == Outcome::kMoved) {
        lane.partial = position;
        break;
      }
      started |= uint64_t{1} << i;
    }
    const auto done = static_cast<uint32_t>(std::countr_one(started));
    lane.next = first + done;
    lane.started = done == kSearch ? 0 : started >> done;
    lane.in_run =
        lane.next < lane.size && (done == 0 || lane.ops[lane.next].relaxed == Op::Relaxed::kInRun);
    note_complete(lane);
    if (!lane.in_run || done < kSearch) return moved;
  }
}

/// Goes on with the stream that begins at lane.next; kDone when its last piece is through.
LaneRunner::Outcome LaneRunner::advance_stream(LaneState& lane) {
  const Stream& stream = call_.program->streams[lane.stream];
  if (stream.in_strands()) return advance_strands(lane, stream);
  bool moved = false;
  while (lane.piece < call_.binding.pieces) {
    while (lane.stream_position < stream.count) {
      const uint32_t position = stream.first + lane.stream_position;
      const Op& op = lane.ops[position];
      const Part part{lane.piece, call_.binding.pieces};
      const Outcome outcome =
          ready(op, part) ? execute(lane, op, position, part) : Outcome::kBlocked;
      if (outcome == Outcome::kBlocked) return moved ? Outcome::kMoved : Outcome::kBlocked;
      moved = true;
      if (outcome == Outcome::kMoved) return outcome;
      ++lane.stream_position;
    }
    lane.stream_position = 0;
    ++lane.piece;
  }
  end_stream(lane, stream);
  return Outcome::kDone;
}

void LaneRunner::end_stream(LaneState& lane, const Stream& stream) {
  lane.stream_position = lane.piece = 0;
  lane.next = stream.first + stream.count;
  call_.next_stream(lane, lane.stream + 1);
  note_complete(lane);
}

/// The same of one in strands: in their order, until a peer that is late has held others up for a
/// while. At once everybody would send first to whose exposure is first, not to whom most wait for.
LaneRunner::Outcome LaneRunner::advance_strands(LaneState& lane, const Stream& stream) {
  const Strands& strands = call_.program->strands[stream.strands];
  if (lane.open_strands == 0) {
    lane.open_strands = static_cast<uint32_t>(strands.ends.size());
    lane.strands.assign(lane.open_strands, {});
    lane.pass = 0;
    lane.idle_since_ns = 0;
  }
  ++lane.pass;
  const uint32_t pieces = stream.once ? 1 : call_.binding.pieces;
  const bool patient =
      services_.patient && (lane.idle_since_ns == 0 || now_ns() - lane.idle_since_ns < kPatienceNs);
  uint32_t piece = lane.piece, place = lane.stream_position;
  uint32_t going = lane.open_strands;  // of them nothing is known that can't start
  bool moved = false, held_up = false;
  while (going > 0) {
    const uint64_t item = uint64_t{piece} * stream.count + place;
    const uint32_t number = strands.of[place];
    StrandState& strand = lane.strands[number];
    if (strand.held_up != lane.pass && item >= strand.next) {
      const Op& op = lane.ops[stream.first + place];
      const Part part = stream.once ? Part{} : Part{piece, pieces};
      const bool is_ready = ready(op, part);
      const Outcome outcome =
          is_ready ? execute(lane, op, stream.first + place, part) : Outcome::kBlocked;
      if (outcome == Outcome::kDone) {
        moved = true;
        strand.next = item + 1;
        if (piece + 1 == pieces && place == strands.ends[number]) {
          --going;
          --lane.open_strands;
        }
      } else {
        moved |= outcome == Outcome::kMoved;
        if (!held_up) {
          held_up = true;
          lane.piece = piece;
          lane.stream_position = place;
        }
        if (patient && !strand.is_late) break;
        strand.is_late |= is_ready && outcome == Outcome::kBlocked;
        strand.held_up = lane.pass;
        --going;
      }
    }
    if (++place == stream.count) {
      place = 0;
      ++piece;
    }
  }
  if (lane.open_strands == 0) {
    end_stream(lane, stream);
    return Outcome::kDone;
  }
  if (moved || !patient) {
    lane.idle_since_ns = 0;
  } else if (lane.idle_since_ns == 0) {
    lane.idle_since_ns = now_ns();
  }
  return moved ? Outcome::kMoved : Outcome::kBlocked;
}

}  // namespace ibcoll
