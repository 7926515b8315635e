#pragma once
/// Executes every registered algorithm of what moves data without combining it, with blocks of all
/// layouts on one side or both, each rank its own, and checks every byte of the memory.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/job.h"

namespace ibcoll::testing {

/// Whether a sweep has runs that rank 0, which sends to other servers, is to put from where they
/// lie.
enum class LongRuns { kNone, kSome };

/// All of them at these sizes; `first`: see sweep().
void strided_sweep(const JobOptions& job, const std::vector<size_t>& sizes, uint32_t first = 0,
                   LongRuns long_runs = LongRuns::kNone);

}  // namespace ibcoll::testing
