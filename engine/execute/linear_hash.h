#pragma once
/// Hashes that commute with a reduction: the combination of the ranks' hashes is the hash of the
/// combination of their data, so that a reduction of a few bytes tells whether one of many was
/// right.

#include <cstddef>
#include <cstdint>

#include "engine/execute/reduction.h"

namespace ibcoll {

inline constexpr size_t kLinearHashBytes = 64;

/// Whether there is one for it: sums of integers, which wrap around, and exclusive or.
bool has_linear_hash(const Reduction& reduction);

/// Writes the hash of whole elements, kLinearHashBytes long and made of elements itself. Data of no
/// more bytes is its own hash, with zeros behind. One element that is wrong, in whichever bits,
/// never has the same hash; of other differences 2^-64 of those that spread over all lanes do.
void linear_hash(const Reduction& reduction, const std::byte* data, uint64_t bytes,
                 std::byte* hash);

}  // namespace ibcoll
