#pragma once
/// Fabrics as networks to map onto.

#include "topology/fabric.h"
#include "topology/mapping/network.h"

namespace ibcoll::topology {

/// The routes of a fabric in a table: node h is host h. Refuses more than RoutedNetwork::kMaxNodes
/// hosts.
Result<RoutedNetwork> tabled_network(const Fabric& fabric);

}  // namespace ibcoll::topology
