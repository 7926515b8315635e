#pragma once
/// Which bytes of an operation's data are meant where a stream carries it out piece by piece.

#include <cstddef>
#include <cstdint>

#include "engine/execute/posted_call.h"

namespace ibcoll {

/// The part of an operation's data that is meant: everything, or one piece of a stream. Of eight
/// bytes, so that it travels in a register.
struct Part {
  uint32_t piece = 0, pieces = 0;
  bool streamed() const { return pieces != 0; }
  bool last() const { return piece + 1 >= pieces; }
};

/// Where a piece of `length` bytes begins. Elements stay whole.
inline size_t cut_at(const PostedCall& call, size_t length, uint32_t piece, uint32_t pieces) {
  const size_t grain = call.binding.grain;
  return piece_begin(*call.program, length / grain, piece, pieces) * grain;
}
/// Where a part of `length` bytes begins and ends.
inline size_t part_begin(const PostedCall& call, Part part, size_t length) {
  return part.piece == 0 ? 0 : cut_at(call, length, part.piece, part.pieces);
}
inline size_t part_end(const PostedCall& call, Part part, size_t length) {
  return part.last() ? length : cut_at(call, length, part.piece + 1, part.pieces);
}

/// Of a call whose send buffer fills while it runs (Binding::available): whether what the operation
/// reads of it has come.
bool source_has_come(const PostedCall& call, const Op& op, Part part);

}  // namespace ibcoll
