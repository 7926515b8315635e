#pragma once
/// Scotch's static mapping, to compare with. The library is loaded when it is asked for; nothing
/// depends on it otherwise.

#include "studies/mapping/anneal.h"

namespace ibcoll::topology {

struct ScotchOptions {
  Goal goal;  ///< which of the mappings is kept
  double seconds = 1;
  Clock clock = Clock::kWall;
  uint64_t seed = 1;
};

/// The best of the mappings that Scotch makes with each of its strategies (default, quality, speed,
/// balance, safety, recursive, scalability) and new seeds until the time is over, each strategy at
/// least once. Where Scotch puts more tasks on a node than fit, those of least traffic go to the
/// nearest node with room. Refuses networks that are neither grids nor
/// hierarchies, and says so when libscotch is missing.
Result<Placement> scotch_map(const CommMatrix& matrix, const Network& network, const Room& room,
                             const ScotchOptions& options);

}  // namespace ibcoll::topology
