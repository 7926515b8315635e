#pragma once
/// How long the traffic of a communication matrix takes where its tasks were placed.

#include "engine/base/result.h"
#include "studies/mapping/evaluate.h"
#include "studies/mapping/grid.h"
#include "studies/mapping/matrix.h"
#include "topology/fabric.h"

namespace ibcoll::sim {

/// Bytes a second of a grid's links, as in the paper on MOPT.
inline constexpr double kGridLinkRate = 5e9;

/// A grid as a fabric: links of that rate and 120 ns a hop, and hosts whose own links hold nothing
/// up.
Result<topology::Fabric> fabric_of(const topology::Grid& grid);

/// Time until the last byte of all messages that the matrix adds up is delivered when they all
/// start at once, flow by flow (max-min shares of the links), in microseconds; node n is host n.
Result<double> placed_traffic_us(const topology::CommMatrix& matrix,
                                 const topology::Placement& placement,
                                 const topology::Fabric& fabric);

}  // namespace ibcoll::sim
