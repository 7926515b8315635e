#pragma once
/// What one rank did in a call, for a timeline.

#include <cstdint>

#include "engine/schedule/program.h"
#include "engine/schedule/rank_record.h"

namespace ibcoll {

struct CallRecord {
  const RankProgram* program = nullptr;
  uint64_t block_bytes = 0;  ///< unequal blocks: the average
  uint32_t pieces = 1;
  RankRecord rank;
};

}  // namespace ibcoll
