#pragma once
/// Traffic without end, for the figures known from textbooks.

#include <functional>

#include "studies/mapping/random.h"
#include "studies/simulate/network.h"
#include "topology/fabric.h"

namespace ibcoll::sim {

/// To which host a host's next packet goes; must not be `from`.
using Destination = std::function<uint32_t(uint32_t from, topology::FastRandom& random)>;

/// To all other hosts alike.
Destination uniform_destination(uint32_t hosts);
/// From host i to i + 1 with probability `alpha`, else to i + 2 (modulo `hosts`, at least 3).
Destination two_destinations(uint32_t hosts, double alpha);

struct TrafficOptions {
  NetworkOptions network;
  uint32_t warm_up_packets = 2000;  ///< a host could send, before counting begins
  uint32_t packets = 20000;         ///< a host could send while it is counted
};

struct TrafficReport {
  double throughput = 0;  ///< part of their links' rate at which hosts receive, all together
  uint64_t packets = 0;   ///< counted
  uint64_t events = 0;
  double wall_s = 0;
};

/// Every host always has a packet of full size to send, each to a destination drawn for it. Packet
/// level only; a fabric whose host links all have the same rate.
Result<TrafficReport> simulate_traffic(const topology::Fabric& fabric,
                                       const Destination& destination,
                                       const TrafficOptions& options);

}  // namespace ibcoll::sim
