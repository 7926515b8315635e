#pragma once
/// Numbers the servers of a job as the network between them suits best.

#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/schedule/shape.h"
#include "topology/spec.h"

namespace ibcoll {

/// The network between servers, as IBCOLL_FABRIC and what begins so name it.
struct FabricSetting {
  std::string fabric;  ///< what topology::open_fabric takes; empty: not known
  /// Names of the servers' hosts in that fabric, a list in the order of the servers (each numbered
  /// by its lowest rank, or as the layout has them). Empty: the hosts that machines are called
  /// like, or for emulated servers the fabric's first ones.
  std::string hosts;
  /// How far the fabric's figures may be off, for plans (topology::believe); none: judged by the
  /// figures.
  std::optional<double> error = {};
  /// What opens it.
  Result<topology::Fabric> (*open)(const std::string&) = topology::open_fabric;
  /// Pairs of hosts of the fabric that may send to each other, "a:b,b:c", for plans. Empty: all
  /// may.
  std::string permitted = {};
};

/// Where the servers are in the network, and what numbering them anew has brought. The latter is
/// known to rank 0.
struct FabricOrder {
  std::vector<int> hosts;  ///< the fabric's host of each server as numbered now; on all ranks
  std::string fabric;      ///< empty: not known
  std::optional<topology::Fabric> network = {};  ///< the fabric itself; on all ranks
  /// Hosts of the fabric that may send to each other, a pair after the other; empty: all may.
  std::vector<int> permitted = {};
  int moved = 0;  ///< servers that have another number now
  /// What a walk over the servers (2-Level Ring, SA) takes: ServerOrder's, before and now.
  double before = 0, after = 0;

  /// For people: "fat-tree:4,3: 60 of 64 servers renumbered, a walk takes 0.42 of what it took".
  std::string describe() const;
};

/// Collective. Numbers the servers of `shape`, which is the same on all ranks, anew. Rank 0 opens
/// the fabric, which is named to all ranks or none; where that can't be read or lacks a server's
/// host, all ranks fail with its error. A live subnet is swept by rank 0 alone, and once: the
/// others get what it found. `emulated`: servers are not machines.
Result<FabricOrder> order_servers(Bootstrap& bootstrap, const FabricSetting& setting, bool emulated,
                                  Shape& shape);

}  // namespace ibcoll
