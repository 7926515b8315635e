#pragma once
/// Programs with their streams laid out: what a LaneCursor walks through.

#include "engine/schedule/program.h"

namespace ibcoll {

/// An operation, or one piece of it, in the order of its lane.
struct Item {
  uint32_t op = 0;
  uint32_t piece = 0;
  bool streamed = false;  ///< this piece only; else all pieces of its slots
  /// As Op::relaxed; all of a stream in strands is a run.
  Op::Relaxed relaxed = Op::Relaxed::kNo;
  std::array<uint32_t, kLanes> after{};  ///< like Op::after, counted in items
};

/// The items of each lane when every slot is cut into `pieces`.
std::array<std::vector<Item>, kLanes> expand(const RankProgram& program, uint32_t pieces);

}  // namespace ibcoll
