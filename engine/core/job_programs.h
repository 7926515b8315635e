#pragma once
/// The programs of a job, from the directory that IBCOLL_PROGRAMS names.

#include <string>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// Collective: makes the schedules in the directory algorithms of all ranks, except those of more
/// ranks than the job has. Rank 0 reads the files and gives them to all, and its errors are all's.
Status add_programs_of(Bootstrap& bootstrap, const std::string& directory);

}  // namespace ibcoll
