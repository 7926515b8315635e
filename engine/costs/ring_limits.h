#pragma once
/// How messages between two ranks of a server travel, by what copying and waiting cost there: see
/// docs/tuning.md for the model.

#include <cstddef>
#include <cstdint>

#include "engine/costs/machine_costs.h"

namespace ibcoll {

enum class MessageWay : uint8_t {
  kRing,      ///< copied through the ring
  kStreamed,  ///< the same, written past the caches
  kRead,      ///< read where it lies
};
inline constexpr size_t kMessageWays = 3;

/// What a message costs, in nanoseconds: of its copies, which may be of one rank or of both.
/// `shared`: it lies in memory that the reader has mapped. `one_way`: see MessageKey.
double message_ns(MessageWay way, bool shared, bool one_way, double sender_ns, double reader_ns,
                  double round_trip_ns);

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
  double round_trip_ns = 200;   ///< of a line, as PairCosts has it

  size_t of(bool shared, bool one_way) const {
    if (shared) return one_way ? of_shared_one_way : of_shared;
    return one_way ? of_private_one_way : of_private;
  }
  bool operator==(const RingLimits&) const = default;
};

/// Where each of so many ranks of a server has a core: no costs, and nothing that is learned, make
/// limits longer.
RingLimits longest_limits(int ranks);

/// For ranks that each have a core, so far apart.
RingLimits ring_limits(const PairCosts& costs);

}  // namespace ibcoll
