#pragma once
/// What it will take to simulate a collective as flows, for what must be refused before it begins.

#include <cstdint>

#include "studies/simulate/collective.h"

namespace ibcoll::sim {

struct RunEstimate {
  uint64_t bytes = 0;         ///< memory, without what messages under way take
  uint64_t flight_bytes = 0;  ///< memory of the messages that may be under way together
  /// Processor time at least: where many flows share links with each other, their rates take more,
  /// which only shows on the way (RunOptions::most_seconds).
  double seconds = 0;
};

/// From the programs of a few ranks, and from the costs of planning where the algorithm is planned.
RunEstimate estimate_run(const Algorithm& algorithm, const Shape& shape,
                         const topology::Fabric& fabric, const CollectiveOptions& options);

}  // namespace ibcoll::sim
