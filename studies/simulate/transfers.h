#pragma once
/// Simulates a set of transfers between hosts: what planners and mappers ask how long it takes.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "studies/simulate/network.h"
#include "topology/fabric.h"

namespace ibcoll::sim {

/// `bytes` from host `from` to host `to` (numbered as the fabric numbers its hosts). Transfers
/// without bytes are tokens, which go ahead of data at the sending port. Between a host and itself
/// no time passes.
struct Transfer {
  uint32_t from = 0, to = 0;
  uint64_t bytes = 0;
  /// Starts when all of these (indices) are delivered and `delay_ns` have gone by.
  std::vector<uint32_t> after = {};
  int64_t delay_ns = 0;
  /// Those of one sender leave in the order in which they may start; different senders share the
  /// host's port packet by packet (or in equal parts). By default every transfer is its own.
  uint32_t sender = kOwnSender;

  static constexpr uint32_t kOwnSender = ~uint32_t{0};
};

struct TransferTimes {
  double time_us = 0;                     ///< until the last is delivered
  std::vector<int64_t> begin_ns, end_ns;  ///< of each: sent from, delivered
  std::vector<uint64_t> link_bytes;       ///< by link of the fabric
  double max_link_utilisation = 0;        ///< of the link that was busy longest: part of the time
  uint64_t events = 0;
};

/// Runs all transfers on an idle fabric. Fails on hosts and indices that are not there, on hosts
/// without a route between them and on transfers that wait for each other in a cycle. Flow level
/// suits sizes far above a packet; it takes about a microsecond of work a transfer and sharer.
Result<TransferTimes> simulate_transfers(const topology::Fabric& fabric,
                                         std::span<const Transfer> transfers,
                                         const NetworkOptions& options);

}  // namespace ibcoll::sim
