#pragma once
/// What engine/sharing/test_hooks.h asks of the bed: limits of a run, rooms that are refused for no
/// reason, and the ways that data have gone.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/sharing/test_hooks.h"

namespace ibcoll::lockstep {

/// A limit that a run may have smaller than the product's.
struct NarrowLimit {
  const char* name;               ///< of the constant in the engine
  std::vector<uint64_t> smaller;  ///< what it may be
};
/// All that the bed narrows.
std::span<const NarrowLimit> narrow_limits();
/// For all runs of this process from now on. The engine must have one of that name.
void set_limit(std::string_view name, uint64_t value);

const char* to_string(Way way);

/// What the hooks have counted in this process.
struct HookCounts {
  std::array<uint64_t, kWays> ways{};
  std::array<uint64_t, kRooms> refused{};
};
HookCounts& hook_counts();

/// MayLackMemory objects of the thread, or fiber, that runs.
extern thread_local int g_may_lack_memory;

}  // namespace ibcoll::lockstep
