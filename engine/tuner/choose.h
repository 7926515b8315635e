#pragma once
/// Which algorithm serves a call best. Measured choices belong here, and nowhere else.

#include <cstdint>
#include <string_view>

#include "engine/schedule/program.h"

namespace ibcoll {

struct Choice {
  std::string_view algorithm;
  AlgorithmOptions options;
  uint32_t pieces = 1;
};

/// A pure function of what all ranks of a group know alike. `block_bytes`: -1 where blocks may
/// differ in size.
Choice choose(Collective collective, const Shape& shape, int64_t block_bytes);

/// Whether waiting for tokens costs more than it saves at this block size: they are left out when a
/// step is shorter than about ten token latencies.
Pacing choose_pacing(const Shape& shape, int64_t block_bytes);

}  // namespace ibcoll
