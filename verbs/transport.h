#pragma once
/// NetworkTransport over InfiniBand verbs: data as RDMA writes, a signal as the immediate of one
/// (of zero bytes where there is no data), mails as sends into a shared receive queue.

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/schedule/shape.h"
#include "engine/transport/transport.h"
#include "verbs/connect.h"
#include "verbs/device.h"
#include "verbs/queue_pair.h"
#include "verbs/registrar.h"

namespace ibcoll::verbs {

struct TransportOptions {
  DeviceOptions devices;
  RetryOptions retry;
  ConnectBy connect = ConnectBy::kDatagrams;
  /// Where this rank runs, to choose a device near it; -1: no matter.
  int numa_node = -1;
  /// See NetworkSetup.
  bool may_decline = false;
  /// Receives posted for all peers together.
  uint32_t receives = 1024;
  RelaxedOrdering ordering = RelaxedOrdering::kAuto;
  /// Registrations kept for buffers that are not in use; 0: none.
  size_t kept_registrations = 256;
  /// Connections of a rank at a time; 0: as many as its share of the device allows.
  uint32_t max_connections = 0;
  /// A connected peer that was silent for so long is probed with a write of no bytes, while this
  /// rank waits.
  int64_t probe_after_ns = 500'000'000;
  /// A port that was down for so long is not waited for any longer; nor are a way to a peer and its
  /// acknowledgements, see RetryOptions.
  int64_t port_down_ns = 5'000'000'000;

  /// The defaults, overridden by the IBCOLL_* variables (docs/environment.md).
  static Result<TransportOptions> from_environment();
};

/// When a transport is created, of so many ranks on so many machines: bytes that a rank holds
/// meanwhile, and those that rank 0 passes on at a time.
size_t introduction_bytes(uint64_t ranks, uint64_t machines);
size_t introduction_told(uint64_t ranks);

/// Collective over the job; fails on all ranks alike, naming the first rank that can't, be it only
/// that its options could not be read. `machine_of`: each rank's machine. A rank uses one port. Of
/// the ports there are, those of one link layer are used, of each machine the fastest, and only
/// such that reach each other. Servers that are emulated on one machine are dealt over them, so
/// that each has its own as far as they go; else the ranks of a server are.
Result<std::unique_ptr<NetworkTransport>> create_transport(Bootstrap& bootstrap, const Shape& shape,
                                                           const std::vector<int>& machine_of,
                                                           const Result<TransportOptions>& options);

}  // namespace ibcoll::verbs
