#pragma once
/// What tells programs apart whose ranks must not meet in a call.

#include <cstdint>
#include <string>

#include "engine/schedule/program.h"

namespace ibcoll {

/// Of all that a program follows from but the rank: the same on all ranks that run it.
uint64_t program_hash(Collective collective, const std::string& algorithm, const Shape& shape,
                      const AlgorithmOptions& options);

}  // namespace ibcoll
