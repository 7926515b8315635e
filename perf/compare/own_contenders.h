#pragma once
/// The contenders that need no MPI: this library, and plain memory copies.

#include "perf/compare/jobs.h"

namespace ibcoll::compare {

/// The library, on buffers of its own (allocated by the engine) or on private memory.
int run_ibcoll(contest& shared, int seat, bool user_memory);

/// The same as one rank of a job that a launcher has started; gives the exit status.
int run_ibcoll_rank(contest& shared, int seat, bool user_memory);

/// memcpy of what must be moved by as many processes, which wait for nobody: what a call costs at
/// least. Of reductions, of as many bytes as are read and written.
int run_memcpy(contest& shared, int seat);

}  // namespace ibcoll::compare
