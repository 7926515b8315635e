#pragma once
/// Broadcasts: which algorithm, and how many pieces.

#include <cstdint>
#include <string_view>

#include "engine/schedule/shape.h"

namespace ibcoll {

struct BcastChoice {
  std::string_view algorithm;
  uint32_t pieces = 1;
};

/// For a block of so many bytes.
BcastChoice choose_bcast(const Shape& shape, int64_t block_bytes);

/// The pieces that suit an algorithm best: parts where it cuts the block itself.
uint32_t bcast_pieces(std::string_view algorithm, const Shape& shape, int64_t block_bytes);

}  // namespace ibcoll
