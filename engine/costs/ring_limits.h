#pragma once
/// Up to how many bytes a message is copied through the ring between two ranks of a server, by what
/// copying and waiting cost there: see docs/tuning.md for the model.

#include <cstddef>
#include <cstdint>

#include "engine/costs/machine_costs.h"

namespace ibcoll {

/// No limit is longer: a ring holds no more anyway.
inline constexpr size_t kLongestInRing = size_t{128} << 10;

/// The longest messages that are copied; longer ones are read where they lie. "One way": where the
/// sender waits for nothing (MessageKey::one_way), and may have many such messages to copy, one
/// after the other, which its peers could read all at once. The defaults are those of a machine
/// whose costs are not known.
struct RingLimits {
  size_t of_shared = 2048, of_shared_one_way = 8192;  ///< out of memory that peers have mapped
  /// Out of private memory, which the kernel reads for them.
  size_t of_private = kLongestInRing, of_private_one_way = kLongestInRing;
  size_t streaming = SIZE_MAX;  ///< from here on copied past the caches
  bool operator==(const RingLimits&) const = default;
};

/// For ranks that each have a core, so far apart.
RingLimits ring_limits(const PairCosts& costs);

}  // namespace ibcoll
