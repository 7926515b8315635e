#include "engine/execute/lane_runner.h"

#include <algorithm>
#include <bit>

#include "engine/base/clock.h"

namespace ibcoll {
namespace {

/// How far a relaxed run is searched for something that can start: the bits of LaneState::started.
constexpr uint32_t kSearch = 64;
static_assert(kSearch <= OpReader::kNear);

/// How long a peer that is not ready holds up what is for others and stands behind: longer than
/// exposures of ranks that make a call together are apart.
constexpr int64_t kPatienceNs = 50'000;

}  // namespace

void LaneRunner::retire(LaneState& lane) {
  while (!lane.pending.empty() && operations_.has_ended(lane.pending.front())) lane.pending.pop();
  note_complete(lane);
}

bool LaneRunner::ready_by_now(const Op& op, Part part) {
  const uint32_t piece = part.streamed() ? part.piece : call().binding.pieces - 1;
  for (int i = 0; i < kLanes; ++i) {
    LaneState& lane = call().lanes[i];
    if (op.after[i] <= call().complete[i]) continue;
    retire(lane);
    if (op.after[i] <= call().complete[i]) continue;
    if (!has_started(lane, op.after[i], piece) || is_read(lane, op.after[i], piece)) return false;
  }
  return true;
}

/// Whether the first `count` operations of a lane have started: of a stream that goes on, all up to
/// that piece of the last one of them.
bool LaneRunner::has_started(const LaneState& lane, uint32_t count, uint32_t piece) const {
  if (count <= lane.next) return true;
  if (lane.next != lane.stream_first) return false;
  const uint32_t done = lane.piece > piece    ? lane.streams[lane.stream].count
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
    return before && !operations_.is_complete(put);
  });
}

/// The stream that an operation of a lane is in, which has started; null: none.
const Stream* LaneRunner::stream_at(const LaneState& lane, uint32_t place) const {
  const size_t count = call().program->streams.size();
  const auto which = static_cast<Lane>(&lane - call().lanes.data());
  // Streams stand in the order of lanes and places.
  for (size_t i = std::min<size_t>(lane.stream + size_t{1}, count); i-- > 0;) {
    const Stream& stream = lane.streams[i];
    if (stream.lane != which || stream.first > place) continue;
    return place < stream.first + stream.count ? &stream : nullptr;
  }
  return nullptr;
}

bool LaneRunner::advance(LaneState& lane) {
  bool moved = false;
  while (lane.next < lane.size) {
    OpOutcome outcome = OpOutcome::kDone;
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
    if (outcome == OpOutcome::kBlocked) return moved;
    moved = true;
    if (outcome == OpOutcome::kMoved) return true;
  }
  if (!lane.pending.empty()) {
    retire(lane);
    moved |= lane.pending.empty();
  }
  return moved;
}

/// Starts operations in their order up to the next stream or relaxed run; says what became of the
/// last one.
OpOutcome LaneRunner::advance_in_order(LaneState& lane) {
  const uint32_t end = std::min(lane.size, lane.stream_first);
  uint32_t& complete = call().complete[static_cast<size_t>(&lane - call().lanes.data())];
  const OpReader& ops = lane.ops;
  for (uint32_t next = lane.next; next < end;) {
    const Op& op = ops[next];
    if (op.relaxed == Op::Relaxed::kFirstOfRun) [[unlikely]]
      break;
    if (!ready(op)) return OpOutcome::kBlocked;
    const OpOutcome outcome = operations_.execute(lane, op, next, {});
    if (outcome != OpOutcome::kDone) return outcome;
    lane.next = ++next;
    complete = lane.pending.empty() ? next : lane.pending.front().position;
  }
  return OpOutcome::kDone;
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
    const OpOutcome outcome = operations_.execute(lane, lane.ops[position], position, {});
    if (outcome == OpOutcome::kBlocked) return false;
    if (outcome == OpOutcome::kMoved) return true;
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
      const OpOutcome outcome = operations_.execute(lane, op, position, {});
      if (outcome == OpOutcome::kBlocked) continue;
      moved = true;
      if (outcome == OpOutcome::kMoved) {
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
OpOutcome LaneRunner::advance_stream(LaneState& lane) {
  const Stream stream = lane.streams[lane.stream];
  if (stream.in_strands()) return advance_strands(lane, stream);
  bool moved = false;
  while (lane.piece < call().binding.pieces) {
    while (lane.stream_position < stream.count) {
      const uint32_t position = stream.first + lane.stream_position;
      const Op& op = lane.ops[position];
      const Part part{lane.piece, call().binding.pieces};
      const OpOutcome outcome =
          ready(op, part) ? operations_.execute(lane, op, position, part) : OpOutcome::kBlocked;
      if (outcome == OpOutcome::kBlocked) return moved ? OpOutcome::kMoved : OpOutcome::kBlocked;
      moved = true;
      if (outcome == OpOutcome::kMoved) return outcome;
      ++lane.stream_position;
    }
    lane.stream_position = 0;
    ++lane.piece;
  }
  end_stream(lane, stream);
  return OpOutcome::kDone;
}

void LaneRunner::end_stream(LaneState& lane, const Stream& stream) {
  lane.stream_position = lane.piece = 0;
  lane.next = stream.first + stream.count;
  call().next_stream(lane, lane.stream + 1);
  note_complete(lane);
}

/// The same of one in strands: in their order, until a peer that is late has held others up for a
/// while. At once everybody would send first to whose exposure is first, not to whom most wait for.
OpOutcome LaneRunner::advance_strands(LaneState& lane, const Stream& stream) {
  const Strands& strands = call().program->strands[stream.strands];
  if (lane.open_strands == 0) lane.begin_strands(strands);
  ++lane.pass;
  const uint32_t pieces = stream.once ? 1 : call().binding.pieces;
  const bool patient = operations_.is_patient() &&
                       (lane.idle_since_ns == 0 || now_ns() - lane.idle_since_ns < kPatienceNs);
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
      const OpOutcome outcome = is_ready ? operations_.execute(lane, op, stream.first + place, part)
                                         : OpOutcome::kBlocked;
      if (outcome == OpOutcome::kDone) {
        moved = true;
        strand.next = item + 1;
        if (piece + 1 == pieces && place == strands.ends[number]) {
          --going;
          --lane.open_strands;
        }
      } else {
        moved |= outcome == OpOutcome::kMoved;
        if (!held_up) {
          held_up = true;
          lane.piece = piece;
          lane.stream_position = place;
        }
        if (patient && !strand.is_late) break;
        strand.is_late |= is_ready && outcome == OpOutcome::kBlocked;
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
    return OpOutcome::kDone;
  }
  if (moved || !patient) {
    lane.idle_since_ns = 0;
  } else if (lane.idle_since_ns == 0) {
    lane.idle_since_ns = now_ns();
  }
  return moved ? OpOutcome::kMoved : OpOutcome::kBlocked;
}

}  // namespace ibcoll
