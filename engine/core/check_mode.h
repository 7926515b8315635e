#pragma once
/// Whether the bytes of all calls are checked.

#include <cstdint>

namespace ibcoll {

/// IBCOLL_CHECK.
enum class CheckMode : uint8_t {
  kOff,
  kData,  ///< before a call ends
  kLate,  ///< before the next one of the group does
};

}  // namespace ibcoll
