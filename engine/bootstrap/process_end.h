#pragma once
/// How processes ended, in the one form that every message about it has.

#include <sys/types.h>

#include <optional>
#include <string>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// Where no more is known.
Failure death_of(Rank rank);

/// "rank 3 (pid 4711) was killed by signal 9 (Killed)", "rank 3 (pid 4711) ended with status 5".
/// `status`: as waitpid() gives it; nothing: not known.
Failure end_of_rank(Rank rank, pid_t pid, std::optional<int> status);

/// The status of a process that is ending or has ended and need not be a child of this one; waits a
/// moment for it. By the kernel's record behind `pidfd` (since Linux 6.15), or as long as its
/// parent has not taken it: of old kernels and quick parents nothing is learned.
std::optional<int> status_of_ended(pid_t pid, int pidfd);

}  // namespace ibcoll
