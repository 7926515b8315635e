#include "engine/execute/short_program.h"

#include <new>
#include <optional>

namespace ibcoll {
namespace {

/// Lays out the operations of one call.
class Layout {
 public:
  Layout(const GroupState& group, const Binding& binding) : group_(group), binding_(binding) {}

  /// None: the operation can't be one.
  std::optional<ShortOp> short_op(const Op& op) const {
    ShortOp made;
    made.before = op.before;
    switch (op.kind) {
      case OpKind::kCopy:
        made.kind = ShortOp::Kind::kCopy;
        return reads(op, made) && writes(op, made) ? std::optional(made) : std::nullopt;
      case OpKind::kReduce:
        made.kind = ShortOp::Kind::kReduce;
        return combines() && reads(op, made) && writes(op, made) ? std::optional(made)
                                                                 : std::nullopt;
      case OpKind::kPut:
        made.kind = ShortOp::Kind::kSend;
        return names_peer(op, made) && reads(op, made) ? std::optional(made) : std::nullopt;
      case OpKind::kExpect:
        made.kind = op.combines ? ShortOp::Kind::kCombine : ShortOp::Kind::kTake;
        return (!op.combines || combines()) && names_peer(op, made) && writes(op, made)
                   ? std::optional(made)
                   : std::nullopt;
      case OpKind::kSignal:
      case OpKind::kWait:
        made.kind = op.kind == OpKind::kSignal ? ShortOp::Kind::kSend : ShortOp::Kind::kTake;
        made.token = true;
        return names_peer(op, made) ? std::optional(made) : std::nullopt;
      case OpKind::kGateSignal:
        made.kind = ShortOp::Kind::kGateSignal;
        return made;  // `gates` follows from those before
      case OpKind::kGateWait:
        made.kind = ShortOp::Kind::kGateWait;
        made.gates = op.threshold;
        return made;
      case OpKind::kExpose:
      case OpKind::kWaitExposed:
      case OpKind::kForward:
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  /// An operator of the program's may fail, or not come back.
  bool combines() const {
    return binding_.reduction != nullptr && binding_.reduction->combine != nullptr &&
           binding_.reduction->identifier() == 0 && binding_.reduction->context == nullptr;
  }
  bool names_peer(const Op& op, ShortOp& made) const {
    made.peer = group_.to_job[static_cast<size_t>(op.peer)];
    return group_.shape.same_server(op.peer, group_.me);
  }
  bool reads(const Op& op, ShortOp& made) const {
    made.source_buffer = static_cast<uint8_t>(op.src_buffer);
    return is_short(op.src(), made, made.source);
  }
  bool writes(const Op& op, ShortOp& made) const {
    made.target_buffer = static_cast<uint8_t>(op.dst_buffer);
    return is_short(op.dst(), made, made.target);
  }
  bool is_short(const Slice& slots, ShortOp& made, uint32_t& place) const {
    if (slots.count == 0) return true;
    const uint64_t begin = binding_.unequal ? binding_[slots.buffer].offsets[slots.first]
                                            : binding_.offset(slots.first);
    const size_t bytes = binding_.length(slots.buffer, slots.first, slots.count);
    place = static_cast<uint32_t>(begin);
    made.bytes = static_cast<uint16_t>(bytes);
    return bytes <= ShortOp::kMostBytes && begin <= UINT32_MAX && lie_side_by_side(slots);
  }
  /// Blocks that differ in length may lie in any order, with gaps.
  bool lie_side_by_side(const Slice& slots) const {
    if (!binding_.unequal) return true;
    const BufferBinding& buffer = binding_[slots.buffer];
    uint64_t end = buffer.offsets[slots.first];
    for (uint32_t slot = slots.first; slot < slots.first + slots.count; ++slot) {
      if (buffer.offsets[slot] != end) return false;
      end += buffer.bytes[slot];
    }
    return true;
  }

  const GroupState& group_;
  const Binding& binding_;
};

}  // namespace

void ShortProgram::make(const GroupState& group, const RankProgram& program,
                        const Binding& binding) {
  const OpList& lane = program.lane(Lane::kLocal);
  const size_t count = lane.size();
  const bool stays_inside = program.lane(Lane::kSend).empty() && program.lane(Lane::kRecv).empty();
  const bool in_one_piece = program.streams.empty() || binding.pieces == 1;
  if (!stays_inside || !in_one_piece || count > kMostOps || lane.is_packed() ||
      binding.is_strided() || binding.available != nullptr || group.by_arrival) {
    return;
  }
  const OpReader ops(lane);
  bool has_gates = false;
  for (size_t i = 0; i < count; ++i)
    has_gates |= ops[i].kind == OpKind::kGateSignal || ops[i].kind == OpKind::kGateWait;
  if (has_gates && !group.gate_slot) {  // a call that is carried out as all are opens them
    uses_ = kUses;
    return;
  }
  try {
    ops_.reserve(count);
    if (has_gates) {
      for (const Rank rank : group.shape.members(group.shape.server_of(group.me)))
        gate_members_.push_back(group.to_job[static_cast<size_t>(rank)]);
    }
  } catch (const std::bad_alloc&) {  // calls go on without
    return;
  }
  const Layout layout(group, binding);
  uint32_t gates = 0;
  for (size_t i = 0; i < count; ++i) {
    const Op& op = ops[i];
    std::optional<ShortOp> made = layout.short_op(op);
    if (!made) return ops_.clear();
    if (op.kind == OpKind::kGateSignal) made->gates = ++gates;
    ops_.push_back(*made);
  }
}

}  // namespace ibcoll
