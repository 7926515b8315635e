#pragma once
/// Joining the job this process was started in, or that of its host.

#include <memory>

#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/hosted_job.h"

namespace ibcoll {

/// True if a launcher (mpirun, mpiexec, srun) has started this process, so that join_job() gives
/// its job. Local.
bool started_by_launcher();

/// The job this process was started in, as IBCOLL_BOOTSTRAP says or its environment tells; a job of
/// its own where no launcher started it. Collective over the job's processes. kUnsupported, saying
/// what to do, where a launcher started several processes that can't find each other: one that
/// takes itself for rank 0 of 1 would compute nonsense.
Result<std::unique_ptr<Bootstrap>> join_job();

/// The job of the host's processes. Collective over them.
Result<std::unique_ptr<Bootstrap>> join_job_of(JobHost& host);

}  // namespace ibcoll
