/// Short calls: a list of messages, in lines or little more, and of gates that are written and read
/// one after the other.

#include <cstring>

#include "engine/base/copy.h"
#include "engine/base/pause.h"
#include "shm/transport.h"

namespace ibcoll::shm {

/// kOther: it has to be offered.
inline Transport::ShortOutcome Transport::send_short(const MessageKey& key, const ShortCall& call,
                                                     const ShortOp& op) {
  Peer& peer = peers_[local(op.peer)];
  if (!peer.outgoing.is_open()) [[unlikely]]
    return ShortOutcome::kOther;
  const std::byte* const source = call.source(op);
  if (op.bytes > kInlineBytes && op.bytes > longest_eager(key, in_region(source, op.bytes)))
      [[unlikely]]
    return ShortOutcome::kOther;
  std::byte* const payload = room_for(peer, op.bytes);
  if (payload == nullptr) [[unlikely]]
    return ShortOutcome::kOther;
  if (op.bytes != 0) std::memcpy(payload, source, op.bytes);
  MessageKey own = key;
  own.token = op.token;
  publish(peer, own, MessageKind::kEager, op.bytes);
  return ShortOutcome::kDone;
}

/// kOther: what has come, or may have, has to be pulled.
inline Transport::ShortOutcome Transport::take_short(const MessageKey& key, const ShortCall& call,
                                                     const ShortOp& op) {
  Peer& peer = peers_[local(op.peer)];
  if (!peer.stash.empty() || !peer.incoming_made) [[unlikely]]
    return ShortOutcome::kOther;
  Ring& ring = peer.incoming;
  if (!ring.has_message()) return ShortOutcome::kNotYet;
  const MessageHeader& front = ring.front();
  const bool expected =
      front.group == key.group && front.sequence == key.sequence && front.program == key.program &&
      front.token == static_cast<uint32_t>(op.token) && front.timed == 0 &&
      front.kind == static_cast<uint32_t>(MessageKind::kEager) && front.length == op.bytes;
  if (!expected) [[unlikely]]
    return ShortOutcome::kOther;
  std::byte* target = nullptr;
  if (op.bytes != 0) {
    const std::byte* const payload = ring.message().payload;
    target = call.target(op);
    if (op.kind == ShortOp::Kind::kTake) {
      std::memcpy(target, payload, op.bytes);
    } else {
      call.combine_into(op, payload);
    }
  }
  took(op.bytes <= kInlineBytes ? Way::kLine : Way::kRing, target, op.bytes);
  ring.release();
  touched(peer);
  return ShortOutcome::kDone;
}

inline Transport::ShortOutcome Transport::carry_out(const MessageKey& key, const ShortCall& call,
                                                    const ShortOp& op) {
  switch (op.kind) {
    case ShortOp::Kind::kSend:
      return send_short(key, call, op);
    case ShortOp::Kind::kTake:
    case ShortOp::Kind::kCombine:
      return take_short(key, call, op);
    case ShortOp::Kind::kCopy:
      if (op.bytes != 0 && call.target(op) != call.source(op))
        copy_plain(call.target(op), call.source(op), op.bytes);
      break;
    case ShortOp::Kind::kReduce:
      if (op.bytes != 0) call.combine_into(op, call.source(op));
      break;
    case ShortOp::Kind::kGateSignal:
      gate_signal(call.gate_slot, key.sequence, op.gates);
      break;
    case ShortOp::Kind::kGateWait:
      for (const Rank member : call.gate_members) {
        if (!gate_passed(member, call.gate_slot, key.sequence, op.gates))
          return ShortOutcome::kNotYet;
      }
      break;
  }
  return ShortOutcome::kDone;
}

size_t Transport::carry_out(const MessageKey& key, const ShortCall& call) {
  size_t done = 0;
  int looks = call.looks;
  while (done < call.ops.size()) {
    const ShortOutcome outcome = carry_out(key, call, call.ops[done]);
    if (outcome == ShortOutcome::kDone) [[likely]] {
      ++done;
      continue;
    }
    if (outcome == ShortOutcome::kOther || --looks <= 0) break;
    // The peer may sleep until it has what was sent before.
    if (!dirty_.empty()) ring_touched();
    pause_core();
  }
  if (!dirty_.empty()) ring_touched();
  return done;
}

}  // namespace ibcoll::shm
