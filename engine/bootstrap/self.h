#pragma once
/// The job of a process that nobody launched as part of a larger one.

#include <memory>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// Rank 0 of 1.
std::unique_ptr<Bootstrap> self_bootstrap();

}  // namespace ibcoll
