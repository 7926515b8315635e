#include "engine/execute/parts.h"

#include <algorithm>

namespace ibcoll {
namespace {

/// Where slots of the send buffer end, from its beginning.
uint64_t end_of(const Binding& binding, uint32_t first, uint32_t count) {
  if (!binding.unequal) return binding.offset(uint64_t{first} + count);
  const BufferBinding& send = binding[Buffer::kSend];
  uint64_t end = 0;
  for (uint32_t slot = first; slot < first + count; ++slot) {
    if (send.bytes[slot] != 0) end = std::max(end, send.offsets[slot] + send.bytes[slot]);
  }
  return end;
}

}  // namespace

bool source_has_come(const PostedCall& call, const Op& op, Part part) {
  const bool reads =
      op.kind == OpKind::kPut || op.kind == OpKind::kCopy || op.kind == OpKind::kReduce;
  if (!reads || op.src_buffer != Buffer::kSend) return true;
  const Binding& binding = call.binding;
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  const size_t end = part_end(call, part, length);
  if (part_begin(call, part, length) == end) return true;
  // Slots of unequal length may lie anywhere: of several all are waited for.
  if (binding.unequal && op.count != 1)
    return end_of(binding, op.src_first, op.count) <= *binding.available;
  return end_of(binding, op.src_first, op.count) - (length - end) <= *binding.available;
}

}  // namespace ibcoll
