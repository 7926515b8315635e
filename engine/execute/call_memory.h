#pragma once
/// What a call takes of memory on its rank, beside its program and the memory that this works in.

#include <cstdint>

#include "engine/base/memory_item.h"

namespace ibcoll {

/// What a program has its rank do with ranks of other servers.
struct CallLoad {
  uint64_t peers = 0;
  uint64_t puts = 0;       ///< to them
  uint64_t arrivals = 0;   ///< of their puts
  uint64_t bytes = 0;      ///< of these
  uint64_t exposures = 0;  ///< that it passes on inside its server
  uint64_t unpacked = 0;   ///< bytes of what is read at a time of packed lists
  bool eager = false;      ///< messages carry their data at once
};

/// Of one call at a time; what is kept for the next one, too.
MemoryItems call_memory(const CallLoad& load);

}  // namespace ibcoll
