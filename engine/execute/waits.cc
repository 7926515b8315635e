#include "engine/execute/waits.h"

#include "engine/execute/parts.h"
#include "engine/schedule/op_kinds.h"

namespace ibcoll {

namespace {

/// Of a lane that has not come to its end: what stands first of all that has not been started.
const Op& next_op(const LaneState& lane) {
  const bool streams = lane.next == lane.stream_first;
  return lane.ops[lane.next + (streams ? lane.stream_position : 0)];
}

/// The wait for data of this rank's own (Binding::available), if the lane has come to that.
std::optional<Wait> wait_for_source(const PostedCall& call, const LaneState& lane) {
  if (call.binding.available == nullptr) return std::nullopt;
  const bool in_pieces = lane.next == lane.stream_first && !lane.streams[lane.stream].once;
  const Op& op = next_op(lane);
  const Part part = in_pieces ? Part{lane.piece, call.binding.pieces} : Part{};
  if (source_has_come(call, op, part)) return std::nullopt;
  return Wait{-1, op.step, "its own data to come", true};
}

}  // namespace

std::optional<Wait> wait_of(const PostedCall& call, const LaneState& lane,
                            const LocalTransport& local) {
  const GroupState& group = *call.group;
  const auto job = [&group](Rank rank) { return group.to_job[rank]; };
  if (lane.next == lane.size) {
    if (lane.pending.empty()) return std::nullopt;
    const PendingPut& put = lane.pending.front();
    return Wait{put.peer, lane.ops[put.position].step, "to take its data"};
  }
  if (const auto source = wait_for_source(call, lane)) return source;
  const Op& op = next_op(lane);
  const auto waits_for = [&op](Rank peer) { return Wait{peer, op.step, meaning(op.kind).awaits}; };
  switch (op.kind) {
    case OpKind::kPut:
    case OpKind::kExpect:
    case OpKind::kSignal:
    case OpKind::kWait:
      return waits_for(job(op.peer));
    case OpKind::kWaitExposed:
      for (const Rank rank : group.shape.members(op.peer)) {
        const PeerState* peer = call.remote.peers.find(job(rank));
        if (peer == nullptr || peer->exposures < op.threshold) return waits_for(job(rank));
      }
      break;
    case OpKind::kGateWait:
      if (!group.gate_slot) break;
      for (const Rank rank : group.shape.members(group.shape.server_of(group.me))) {
        if (!local.gate_passed(job(rank), *group.gate_slot, call.key.sequence, op.threshold))
          return waits_for(job(rank));
      }
      break;
    case OpKind::kForward:
      return waits_for(-1);
    default:
      break;
  }
  return Wait{-1, op.step, "for its own earlier operations"};
}

Wait wait_of(const PostedCall& call, const LocalTransport& local) {
  for (const LaneState& lane : call.lanes) {
    if (const auto wait = wait_of(call, lane, local)) return *wait;
  }
  if (call.remote.held_by) return {*call.remote.held_by, 0, "to take what it was sent"};
  return {};
}

std::string describe(const PostedCall& call, const LocalTransport& local) {
  const Wait wait = wait_of(call, local);
  // The engine's own calls go by what the program has called.
  const CallMeaning* const told = call.binding.told;
  const bool own = told != nullptr && told->purpose != CallPurpose::kProgram;
  const std::string where = fmt::format("{} ({}), call {}, step {}",
                                        own ? told->name() : to_string(call.program->collective),
                                        call.program->algorithm, call.key.sequence, wait.step);
  const Rank me = call.group->to_job[call.group->me];
  if (wait.own) return fmt::format("rank {} was waiting for {} in {}", me, wait.what, where);
  if (wait.peer < 0) return fmt::format("rank {} in {}", me, where);
  return fmt::format("rank {} was waiting for rank {} {} in {}", me, wait.peer, wait.what, where);
}

}  // namespace ibcoll
