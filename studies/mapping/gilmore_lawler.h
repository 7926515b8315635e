#pragma once
/// The Gilmore-Lawler bound of hop-bytes.

#include <optional>

#include "studies/mapping/evaluate.h"

namespace ibcoll::topology {

/// Most places that gilmore_lawler() takes: its time grows with their cube.
inline constexpr int kMostBoundedPlaces = 512;

/// What no placement's hop-bytes (Evaluation::hop_bytes, or hop_bytes_mesh with `mesh_hops`) can go
/// below, by Gilmore (1962) and Lawler (1963): a task in a place costs at least its partners, the
/// heaviest first, in the places that are nearest to that one, and a linear assignment problem
/// finds the cheapest way to give each task a place. Never below lower_bounds()'s, and above it
/// where places differ, as in meshes. Nothing where there are more places than kMostBoundedPlaces.
std::optional<double> gilmore_lawler(const CommMatrix& matrix, const Network& network,
                                     const Room& room, bool mesh_hops);

}  // namespace ibcoll::topology
