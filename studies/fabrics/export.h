#pragma once
/// Fabrics for other programs.

#include <string>

#include "topology/fabric.h"

namespace ibcoll::topology {

/// A net file for ibsim: nodes and cables. ibsim knows neither bandwidths nor routes; hosts come
/// first, so that opensm runs at the first of them.
std::string ibsim_net(const Fabric& fabric);

/// An undirected graph for Graphviz, bundles of cables as one edge with their number.
std::string graphviz(const Fabric& fabric);

}  // namespace ibcoll::topology
