#pragma once
/// What no placement can go below: says how far a placement may still be from the best one.

#include "studies/mapping/evaluate.h"

namespace ibcoll::topology {

/// Lower bounds of the figures of an Evaluation.
struct Bounds {
  double hop_bytes = 0;      ///< as Evaluation::hop_bytes; goes for hop_bytes_mesh, too
  double max_link_load = 0;  ///< as Evaluation::max_link_load
};

/// Hop-bytes: each task's partners, heaviest first, on the nearest places there are anywhere.
/// Largest link: the largest of three. A cut around any one node: what its tasks send to and get
/// from elsewhere goes over its own links. One message: it takes one route, unless both ends share
/// a node. All traffic: the bound of hop-bytes over all links alike, where a hop is a link.
/// Time O(nodes^2) for networks that aren't grids.
Bounds lower_bounds(const CommMatrix& matrix, const Network& network, const Room& room);

}  // namespace ibcoll::topology
