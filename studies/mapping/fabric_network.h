#pragma once
/// Fabrics as networks to map onto.

#include "studies/mapping/network.h"
#include "topology/fabric.h"

namespace ibcoll::topology {

/// The routes of a fabric in a table: node h is host h. Refuses more than RoutedNetwork::kMaxNodes
/// hosts.
Result<RoutedNetwork> tabled_network(const Fabric& fabric);

}  // namespace ibcoll::topology
