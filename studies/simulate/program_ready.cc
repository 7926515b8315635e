/// What an operation of a program waits for, uses up, moves and costs.

#include <algorithm>
#include <cmath>

#include "engine/schedule/op_kinds.h"
#include "studies/simulate/program_run.h"

namespace ibcoll::sim {

bool ProgramRun::may_start(Rank rank, int lane, uint32_t item) const {
  const RankRun& run = ranks_[rank];
  const Op& op = run.at[lane].op(item);
  if (options_.hold == Hold::kBarrier && op.step > step_) return false;
  if (options_.hold == Hold::kRankStep && op.step > run.step) return false;
  return run.at.behind(lane, item) < 0 && peer_ready(rank, op);
}

bool ProgramRun::peer_ready(Rank rank, const Op& op) const {
  const auto local = [&](Rank peer) { return shape_.same_server(rank, peer); };
  const auto& puts = [&](Rank from) -> const LocalPuts& {
    return local_[static_cast<size_t>(rank) * shape_.max_server_size() + shape_.local_of(from)];
  };
  switch (op.kind) {
    case OpKind::kPut:
      return local(op.peer) || exposures_[pair(rank, op.peer)] > op.exposure;
    case OpKind::kExpect:
      if (local(op.peer)) return puts(op.peer).first < puts(op.peer).items.size();
      return arrived_[pair(rank, op.peer)] > 0;
    case OpKind::kWait:
      if (local(op.peer)) return puts(op.peer).tokens > 0;
      return !tokens_.empty() && tokens_[pair(rank, op.peer)] > 0;
    case OpKind::kWaitExposed: {
      const auto members = shape_.members(op.peer);
      return std::all_of(members.begin(), members.end(),
                         [&](Rank peer) { return exposures_[pair(rank, peer)] >= op.threshold; });
    }
    case OpKind::kForward:
      return ranks_[rank].routed >= op.threshold;
    case OpKind::kGateWait: {
      const auto members = shape_.members(shape_.server_of(rank));
      return std::all_of(members.begin(), members.end(),
                         [&](Rank peer) { return ranks_[peer].gates >= op.threshold; });
    }
    default:
      return true;
  }
}

uint64_t ProgramRun::bytes_of(Rank rank, const Op& op, bool source) const {
  const RankProgram& program = *programs_[rank];
  const Slice slice = source ? op.src() : op.dst();
  if (program.cut > 1 && slice.buffer != Buffer::kScratch) {
    return cut_bytes(options_.block_bytes, program.cut, slice.first, slice.count);
  }
  if (program.cut > 1) {
    uint64_t bytes = 0;
    for (uint32_t slot = slice.first; slot < slice.first + slice.count; ++slot) {
      bytes += cut_bytes(options_.block_bytes, program.cut,
                         part_number(program.scratch[slot], program.cut), 1);
    }
    return bytes;
  }
  if (!options_.bytes_of) return op.count * options_.block_bytes;
  uint64_t sum = 0;
  for (uint32_t slot = slice.first; slot < slice.first + slice.count; ++slot) {
    sum += options_.bytes_of(program.block(slice.buffer, slot));
  }
  return sum;
}

uint64_t ProgramRun::item_bytes(Rank rank, int lane, uint32_t item) const {
  const LaneCursor& at = ranks_[rank].at[lane];
  const Op& op = at.op(item);
  const uint64_t bytes = bytes_of(rank, op, meaning(op.kind).reads);
  if (!at.streamed(item)) return bytes;
  const uint32_t piece = at.piece(item);
  const RankProgram& program = *programs_[rank];
  return piece_begin(program, bytes, piece + 1, options_.pieces) -
         piece_begin(program, bytes, piece, options_.pieces);
}

/// How long the rank itself is busy with an operation, copies apart.
Time ProgramRun::cost(Rank rank, int lane, uint32_t item) {
  const LaneCursor& at = ranks_[rank].at[lane];
  const Op& op = at.op(item);
  switch (op.kind) {
    case OpKind::kPut: {
      if (shape_.same_server(rank, op.peer)) return 0;
      Time time = options_.send_overhead_ns * kPicosecondsPerNanosecond;
      if (options_.jitter > 0) {
        time += std::llround(random_.unit() * options_.jitter *
                             static_cast<double>(item_bytes(rank, lane, item)) *
                             routes_.ps_per_byte(route(rank, op.peer)));
      }
      return time;
    }
    case OpKind::kSignal:
      if (shape_.same_server(rank, op.peer) || !at.sends_token(item, options_.pieces)) return 0;
      return options_.send_overhead_ns * kPicosecondsPerNanosecond;
    case OpKind::kExpose:
      return options_.send_overhead_ns * kPicosecondsPerNanosecond;
    case OpKind::kExpect:
    case OpKind::kWait:
      if (shape_.same_server(rank, op.peer)) return 0;
      return options_.recv_overhead_ns * kPicosecondsPerNanosecond;
    default:
      return 0;
  }
}

/// Uses up what the operation has waited for.
void ProgramRun::take(Rank rank, const Op& op) {
  if (op.kind == OpKind::kExpect && !shape_.same_server(rank, op.peer)) {
    --arrived_[pair(rank, op.peer)];
  } else if (op.kind == OpKind::kWait) {
    if (shape_.same_server(rank, op.peer)) {
      --local_puts(op.peer, rank).tokens;
    } else {
      --tokens_[pair(rank, op.peer)];
    }
  }
}

}  // namespace ibcoll::sim
