#pragma once
/// Calls inside a server that are carried out at once, as a list of operations: what a rank does
/// in one whose messages are short.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/schedule/shape.h"

namespace ibcoll {

/// A message, or work in this rank's memory. Places are offsets in the call's buffers.
struct ShortOp {
  enum class Kind : uint8_t {
    kSend,        ///< of `source`, to `peer`
    kTake,        ///< from `peer`, into `target`
    kCombine,     ///< the same, combined with what is there
    kCopy,        ///< target <- source
    kReduce,      ///< target <- target and source, combined
    kGateSignal,  ///< this rank has passed `gates` gates of the call
    kGateWait,    ///< until all of ShortCall::gate_members have
  };
  Kind kind = Kind::kCopy;
  bool token = false;   ///< kSend, kTake: as in MessageKey
  bool before = false;  ///< what is combined into the target stands before it, not after it
  uint8_t source_buffer = 0, target_buffer = 0;  ///< in ShortCall::buffers
  uint16_t bytes = 0;
  Rank peer = -1;  ///< of the job
  uint32_t source = 0, target = 0;
  uint32_t gates = 0;  ///< kGateSignal, kGateWait

  /// No message or copy is longer.
  static constexpr size_t kMostBytes = 1024;
};
static_assert(sizeof(ShortOp) == 24);

/// What they are carried out with.
struct ShortCall {
  using Combine = const char* (*)(void* target, const void* source, size_t bytes, void* context);

  std::span<const ShortOp> ops;
  std::array<std::byte*, 4> buffers{};
  /// Where operations combine; neither can fail.
  Combine combine = nullptr;
  Combine combine_reversed = nullptr;  ///< for ShortOp::before
  void* context = nullptr;
  uint32_t gate_slot = 0;  ///< as open_gates() gave it
  std::span<const Rank> gate_members;
  int looks = 1;  ///< how often it is looked for what has not come, in all operations together

  const std::byte* source(const ShortOp& op) const { return buffers[op.source_buffer] + op.source; }
  std::byte* target(const ShortOp& op) const { return buffers[op.target_buffer] + op.target; }
  /// Combines `source` into the operation's target.
  void combine_into(const ShortOp& op, const std::byte* source) const {
    (op.before ? combine_reversed : combine)(target(op), source, op.bytes, context);
  }
};

}  // namespace ibcoll
