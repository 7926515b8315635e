#pragma once
/// Numbering the servers of a job so that algorithms that walk them as a ring suit the network.

#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"
#include "topology/fabric.h"

namespace ibcoll {

/// A numbering of servers and what it is worth.
struct ServerOrder {
  std::vector<int> order;  ///< old number of the server that gets number 0, 1, ...
  /// Seconds that a walk over the servers (2-Level Ring, SA) takes, a byte each pair of ranks, if
  /// every step lasts as long as its busiest link needs: as the servers were numbered, and now.
  double before = 0, after = 0;
};

/// Step j of a walk is a shift by j: server i sends to i + j. On a fat tree with d-mod-k routes no
/// two of its routes share a link if servers are numbered in tree order (Zahavi 2010), and many do
/// otherwise. This looks for such an order whatever hosts are called: hosts of a switch side by
/// side, in the order of the ports that routes to them take on the way up, and so on for groups of
/// switches. The order there was and that of the fabric's hosts are tried as well; the best is
/// taken. `hosts`: of each server.
ServerOrder fabric_server_order(const topology::Fabric& fabric, const Shape& shape,
                                std::span<const int> hosts);

/// What `before` and `after` are, for any order.
double walk_seconds(const topology::Fabric& fabric, const Shape& shape, std::span<const int> hosts,
                    std::span<const int> order);

/// The same ranks on the same servers, these numbered anew: server order[i] gets number i.
Result<Shape> renumber_servers(const Shape& shape, std::span<const int> order);

}  // namespace ibcoll
