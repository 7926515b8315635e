#pragma once
/// Annealing of a tiled torus: whole units change places and are turned, so that the traffic inside
/// them keeps the loads of the tiling.

#include <cstdint>
#include <functional>

#include "studies/mapping/anneal.h"
#include "studies/mapping/tile.h"

namespace ibcoll::topology {

/// The units in the order in which MOPT's merging keeps the heaviest partners together.
std::vector<int> order_of_units(const CommMatrix& matrix, const Units& units);

/// Units on the sites of a tiling: the order goes along repeated halving of the torus.
struct UnitPlaces {
  std::vector<int> site_of;  ///< of each unit: a copy of the tile
  std::vector<int> turn_of;  ///< of each unit, one of Units::turns
};
UnitPlaces lay_units(const Grid& grid, const Tiling& tiling, const std::vector<int>& order);

/// The node of each task.
Placement placement_of(const Units& units, const Tiling& tiling, const UnitPlaces& places);

struct UnitAnnealOptions {
  AnnealLimits limits;
  uint64_t seed = 1;
  /// The part of the cooling that is left out (0 to 1): 0 forgets the start.
  double cooled = 0;
  /// Called now and then with the part of the run that is over (0 to 1).
  std::function<void(double)> progress;
};

/// The placement of least maximum link load that is found from `start`. Minimises hop-bytes plus a
/// penalty that grows exponentially with a link's load and gets steeper, light messages joining
/// late.
Placement anneal_units(const CommMatrix& matrix, const Grid& grid, const Units& units,
                       const Tiling& tiling, const UnitPlaces& start,
                       const UnitAnnealOptions& options);

}  // namespace ibcoll::topology
