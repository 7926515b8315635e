#pragma once
/// Hop-bytes of placements on few places: a memetic search, which crosses good placements and
/// improves each child by tabu search (Benlic, Hao 2015; Drezner 2003).

#include <functional>
#include <optional>
#include <span>

#include "studies/mapping/anneal.h"

namespace ibcoll::topology {

struct BreedOptions {
  bool mesh_hops = false;  ///< count a torus's hops without its wraparound links
  /// An exchange of the tabu search counts as half as many moves as there are places: it looks at
  /// all exchanges, and takes as long.
  AnnealLimits limits;
  uint64_t seed = 1;
  /// Called with every child.
  std::function<void(const Placement&)> offer;
};

/// Most places that breed() takes: beyond, a child takes too long.
inline constexpr int kMostBredPlaces = 256;

/// The best placement that was found; the first parents are the `starts` and random ones. Begins
/// with new parents where children no longer get any better. Nothing where there are too many
/// places, or where both traffic and hops differ between the two directions.
std::optional<Placement> breed(const CommMatrix& matrix, const Network& network, const Room& room,
                               std::span<const Placement> starts, const BreedOptions& options);

}  // namespace ibcoll::topology
