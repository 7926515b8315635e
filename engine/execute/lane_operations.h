#pragma once
/// What the operations of a call's lanes do with memory and with the transports. Included by who
/// carries out lanes: what is inline is so for speed.

#include <cstddef>
#include <cstdint>

#include "engine/base/copy.h"
#include "engine/execute/lane_services.h"
#include "engine/execute/parts.h"
#include "engine/execute/posted_call.h"
#include "engine/execute/strided_operations.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// Carries out operations of one call that are ready: see LaneRunner, which has their order.
class LaneOperations {
 public:
  LaneOperations(const LaneServices& services, PostedCall& call)
      : services_(services), call_(call), to_job_(call.group->to_job) {}

  PostedCall& call() const { return call_; }
  /// Whether peers that are late may hold up others.
  bool is_patient() const { return services_.patient; }

  /// Carries out the operation at `position` of its lane, or goes on with it.
  OpOutcome execute(LaneState& lane, const Op& op, uint32_t position, Part part);
  /// Whether the source of a put may be overwritten.
  bool is_complete(PendingPut& put) const {
    if (!put.local) return services_.network->completed(put.peer) >= put.ticket;
    // Tickets that have ended may be another message's by now.
    if (!put.ended)
      put.ended = services_.local.completed(put.peer, static_cast<uint32_t>(put.ticket));
    return put.ended;
  }
  /// The same, of a put that is to a dead rank once it has been taken back.
  bool has_ended(PendingPut& put) const {
    if (is_complete(put)) return true;
    return put.local && call_.group->has_lost(put.peer) &&
           services_.local.retract(put.peer, static_cast<uint32_t>(put.ticket));
  }

 private:
  OpOutcome execute_now(LaneState& lane, const Op& op, uint32_t position, Part part);
  OpOutcome execute_and_note(LaneState& lane, const Op& op, uint32_t position, Part part);
  // In this rank's memory.
  bool copy_short(const Op& op, Part part);
  OpOutcome copy(LaneState& lane, const Op& op, Part part);
  void copy_scattered(const Op& op, Part part);
  OpOutcome reduce(LaneState& lane, const Op& op, Part part);
  OpOutcome end_by_operator(const Op& op, const char* failure);
  // Inside the server.
  OpOutcome put_local(LaneState& lane, const Op& op, uint32_t position, Part part, bool token);
  Offer offer(Rank peer, const Op& op, Part part, bool token, uint32_t& ticket);
  Pull take(LaneState& lane, const Op& op, Part part, bool token, Combining* how);
  OpOutcome pull(LaneState& lane, const Op& op, Part part, bool token);
  bool open_gates();
  bool gates_passed(const Op& op);
  // Between servers.
  OpOutcome put_network(LaneState& lane, const Op& op, uint32_t position, Part part);
  OpOutcome put_mailed(const Op& op, Part part);
  OpOutcome take_mailed(const Op& op, Part part);
  OpOutcome expose(LaneState& lane, const Op& op);
  bool all_exposed(const Op& op);

  StridedOperations strided() { return {services_, call_}; }
  Rank job_rank(Rank rank) const { return to_job_[rank]; }
  /// Where a part of `length` bytes begins and ends.
  size_t part_begin(Part part, size_t length) const {
    return ibcoll::part_begin(call_, part, length);
  }
  size_t part_end(Part part, size_t length) const { return ibcoll::part_end(call_, part, length); }

  const LaneServices& services_;
  PostedCall& call_;
  RankSpan to_job_;
};

/// A signal in a stream is sent with one of its pieces.
inline bool sends_token(const Op& op, Part part) {
  return !part.streamed() || part.piece == signal_piece(op, part.pieces);
}

/// A copy that needs no second look: true if that was one, and it is done.
[[gnu::always_inline]] inline bool LaneOperations::copy_short(const Op& op, Part part) {
  const Binding& binding = call_.binding;
  const size_t bytes = op.count * binding.block_bytes;
  if (part.streamed() || !call_.plain || bytes > LaneServices::kPieceBytes) return false;
  if (bytes == 0) return true;
  std::byte* target = binding.address(op.dst_buffer, op.dst_first);
  const std::byte* source = binding.address(op.src_buffer, op.src_first);
  // In place: the block is where it belongs, and the network may be reading it.
  if (target != source) copy_plain(target, source, bytes);
  return true;
}

/// Inline, for what a call of it would cost is a good part of what an operation without data costs.
[[gnu::always_inline]] inline OpOutcome LaneOperations::execute_now(LaneState& lane, const Op& op,
                                                                    uint32_t position, Part part) {
  if (call_.binding.available != nullptr && !source_has_come(call_, op, part)) [[unlikely]]
    return OpOutcome::kBlocked;
  switch (op.kind) {
    case OpKind::kCopy:
      return copy_short(op, part) ? OpOutcome::kDone : copy(lane, op, part);
    case OpKind::kReduce:
      return reduce(lane, op, part);
    case OpKind::kPut:
      if (op.lane == Lane::kLocal) return put_local(lane, op, position, part, false);
      return call_.binding.eager ? put_mailed(op, part) : put_network(lane, op, position, part);
    case OpKind::kExpect:
      if (op.lane == Lane::kLocal) return pull(lane, op, part, false);
      if (call_.binding.eager) return take_mailed(op, part);
      if (call_.strided) [[unlikely]]
        return strided().expect(lane, op, part);
      return take_one(call_.remote.peers[job_rank(op.peer)].arrivals) ? OpOutcome::kDone
                                                                      : OpOutcome::kBlocked;
    case OpKind::kSignal:
      if (!sends_token(op, part)) return OpOutcome::kDone;
      if (op.lane == Lane::kLocal) return put_local(lane, op, position, part, true);
      return services_.mailroom.send_token(call_, op.peer) ? OpOutcome::kDone : OpOutcome::kBlocked;
    case OpKind::kWait:
      // The one operation that may stand in any lane.
      if (call_.group->shape.same_server(op.peer, call_.group->me))
        return pull(lane, op, part, true);
      return take_one(call_.remote.peers[job_rank(op.peer)].tokens) ? OpOutcome::kDone
                                                                    : OpOutcome::kBlocked;
    case OpKind::kExpose:
      return expose(lane, op);
    case OpKind::kWaitExposed:
      return call_.binding.eager || all_exposed(op) ? OpOutcome::kDone : OpOutcome::kBlocked;
    case OpKind::kForward:
      return call_.binding.eager || call_.remote.forwarded >= op.threshold ? OpOutcome::kDone
                                                                           : OpOutcome::kBlocked;
    case OpKind::kGateSignal:
      if (!open_gates()) return OpOutcome::kBlocked;
      services_.local.gate_signal(*call_.group->gate_slot, call_.key.sequence, ++call_.gates);
      return OpOutcome::kDone;
    case OpKind::kGateWait:
      return gates_passed(op) ? OpOutcome::kDone : OpOutcome::kBlocked;
  }
  return OpOutcome::kBlocked;
}

[[gnu::always_inline]] inline OpOutcome LaneOperations::execute(LaneState& lane, const Op& op,
                                                                uint32_t position, Part part) {
  if (call_.record != nullptr) [[unlikely]]
    return execute_and_note(lane, op, position, part);
  return execute_now(lane, op, position, part);
}

}  // namespace ibcoll
