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

/// Whether ranks of all servers can share what their server has to do: each has several, and none
/// less than half as many as the largest.
bool shares_alike(const Shape& shape);

/// Which ranks may send to other servers.
enum class Crossing : uint8_t { kLeaders, kAllRanks };

/// For a block of so many bytes.
BcastChoice choose_bcast(const Shape& shape, int64_t block_bytes,
                         Crossing crossing = Crossing::kAllRanks);

/// The pieces that suit an algorithm best: parts where it cuts the block itself.
uint32_t bcast_pieces(std::string_view algorithm, const Shape& shape, int64_t block_bytes);

}  // namespace ibcoll
