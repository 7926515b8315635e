#pragma once
/// Measures what copying and waiting cost here.

#include <sched.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/costs/machine_costs.h"

namespace ibcoll {

/// Two hardware threads, by their numbers, and how far they are apart.
struct CorePair {
  Distance distance = Distance::kNear;
  int first = 0, second = 0;
};
/// One pair for each distance that there is among these processors.
Result<std::vector<CorePair>> core_pairs(const cpu_set_t& processors);

struct MeasureEffort {
  int samples = 9;  ///< of each figure, whose median it is
  /// Also what waking, yielding and huge pages cost, which limits do not depend on.
  bool all = false;
  int64_t limit_ns = 50'000'000;  ///< of all: a machine under load takes longer
};
/// Measures between these pairs with two threads that it starts and pins. Where another thread runs
/// there the figures say so by their spread. Fails where it takes longer than the limit, and where
/// threads can't be started or pinned.
Result<MachineCosts> measure_costs(const std::vector<CorePair>& pairs, const MeasureEffort& effort);

}  // namespace ibcoll
