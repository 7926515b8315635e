#pragma once
/// Bytes that show who sent them, to whom, at which place and in which iteration, so that a block
/// in the wrong place, an old one or one never written is noticed.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/schedule/shape.h"

namespace ibcoll::measure {

/// Which block of which iteration. `target` is Block::kEveryone where all get the same.
struct PatternKey {
  Rank origin = 0;
  Rank target = 0;
  uint64_t iteration = 0;
};

/// Writes the pattern of `key` to `bytes` bytes.
void fill_pattern(std::byte* to, size_t bytes, const PatternKey& key);

/// The first place where these bytes are not the pattern of `key`; none if all are.
std::optional<size_t> find_difference(const std::byte* data, size_t bytes, const PatternKey& key);

/// What receive buffers are filled with before a checked call, and what lies around them.
inline constexpr std::byte kPoison{0xa5};

}  // namespace ibcoll::measure
