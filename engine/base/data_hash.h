#pragma once
/// A hash of data at the speed of memory, by which ranks tell whether what has arrived is what was
/// sent: XXH3 of 64 bits (libxxhash).

#include <cstdint>

#include "engine/base/strided_copy.h"

namespace ibcoll {

/// Of the first `bytes` bytes of a view, in their order: the same however they lie. Another one for
/// each `seed`, such as the hash of what stands before.
uint64_t hash_data(const StridedView& view, uint64_t bytes, uint64_t seed = 0);

}  // namespace ibcoll
