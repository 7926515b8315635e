#pragma once
/// How far the steady clocks of a job's machines are apart.

#include <cstdint>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll::measure {

struct ClockOffset {
  int64_t offset_ns = 0;  ///< this rank's clock minus rank 0's
  int64_t error_ns = 0;   ///< how far from that it may be; 0 on rank 0's machine
};

/// Collective. Nobody leaves a barrier before all have entered it, which bounds the offset from
/// both sides; the narrowest of some barriers counts.
Result<ClockOffset> measure_clock_offset(Bootstrap& bootstrap);

}  // namespace ibcoll::measure
