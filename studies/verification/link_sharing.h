#pragma once
/// Proves that a schedule never asks more of a link than it can carry, whatever the timing.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/schedule/verifier.h"
#include "topology/fabric.h"

namespace ibcoll {

/// What prove_link_sharing found.
struct LinkSharing {
  bool holds = true;
  std::string witness;  ///< where it does not: link, puts and bandwidths
  /// Links that puts at the same time may ask for more than they carry, all of which are less than
  /// is under way on the link: one line each.
  std::vector<std::string> small;
  int64_t puts = 0;       ///< looked at
  int64_t crossings = 0;  ///< of links by puts
};

/// Two puts may run at once unless one has landed before the other starts, by the order that the
/// schedule's own signals make (OrderedPut). Proves that on every directed link of the fabric the
/// puts of two or more servers that may run at once need no more than its bandwidth: those from one
/// server to another the smallest bandwidth of their route, all of one server together at most its
/// host's link. (What one server alone sends too much waits at its own host.) Where this fails the
/// witness names two puts, or the first two of more, that exceed the link; "not proven" where the
/// search for such puts takes too long. Control messages count for nothing. `hosts`: the fabric's
/// host of each server. `block_bytes`, if known: a link whose puts come to less in all than its
/// bandwidth times its latency needs no order (the small messages of the thesis that
/// contention_free goes by); where it is shared that is said in `small`.
///
/// Time grows with the square of the puts that pass a link.
LinkSharing prove_link_sharing(const topology::Fabric& fabric, const Shape& shape,
                               std::span<const int> hosts, std::span<const OrderedPut> puts,
                               int64_t block_bytes = 0);

}  // namespace ibcoll
