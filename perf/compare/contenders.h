#pragma once
/// Who takes part in a comparison, each in its best setting for the number of ranks.

#include <vector>

#include "engine/schedule/shape.h"
#include "perf/compare/jobs.h"

namespace ibcoll::compare {

/// This library, Open MPI, MPICH and plain copying. An MPI that is missing is left out, and with
/// `report_missing` that is said.
std::vector<Contender> contenders(int ranks, bool user_memory, bool report_missing);

/// On several machines (tests/machines), started from their head: this library, Open MPI over TCP
/// and over UCX, and MPICH.
std::vector<Contender> contenders_on_machines(const Shape& shape, bool user_memory);

}  // namespace ibcoll::compare
