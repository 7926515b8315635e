#pragma once
/// Whether ranks have the same elements, as far as reductions promise them: which NaN a NaN is, and
/// what stands between a value and its index, is nobody's business.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/execute/reduction.h"

namespace ibcoll {

/// The hash of whole elements.
uint64_t hash_elements(const Reduction& reduction, const std::byte* data, uint64_t bytes);

/// Where the first element stands, in bytes, that is another one in `b`; none: all are the same.
std::optional<uint64_t> first_difference(const Reduction& reduction, const std::byte* a,
                                         const std::byte* b, uint64_t bytes);

}  // namespace ibcoll
