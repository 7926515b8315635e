#pragma once
/// The machines of tests/machines, as their head sees them.

#include <cstdint>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"

namespace ibcoll::compare {

/// The machines that this process is the head of, and their ranks; fails where there are none.
Result<Shape> machines_here();

/// Bytes that have left any of them for another, by the counters of their links.
uint64_t sent_between_machines();

}  // namespace ibcoll::compare
