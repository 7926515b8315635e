#pragma once
/// Annealing of a tiled torus: whole units change places and are turned, so that the traffic inside
/// them keeps the loads of the tiling.

#include <cstdint>
#include <functional>

#include "topology/mapping/anneal.h"
#include "topology/mapping/tile.h"

namespace ibcoll::topology {

struct UnitAnnealOptions {
  AnnealLimits limits;
  uint64_t seed = 1;
  /// Called now and then with the part of the run that is over (0 to 1).
  std::function<void(double)> progress;
};

/// The placement of least maximum link load that is found. Starts from an order of the units by
/// MOPT's merging along a halving of the torus; minimises hop-bytes plus a penalty that grows
/// exponentially with a link's load and gets steeper, light messages joining late.
Placement anneal_units(const CommMatrix& matrix, const Grid& grid, const Units& units,
                       const Tiling& tiling, const UnitAnnealOptions& options);

}  // namespace ibcoll::topology
