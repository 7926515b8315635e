#pragma once
/// Joining the job this process was started in.

#include <memory>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// The job this process was started in; a job of its own where no launcher started it.
/// kUnsupported, naming the launcher, where it was started by one that can't be joined: a process
/// that takes itself for rank 0 of 1 would compute nonsense.
Result<std::unique_ptr<Bootstrap>> join_job();

}  // namespace ibcoll
