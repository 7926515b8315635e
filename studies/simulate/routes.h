#pragma once
/// The links of a network and the routes taken over them, laid out for simulation.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "studies/fabrics/lanes.h"
#include "studies/simulate/event_queue.h"
#include "topology/fabric.h"

namespace ibcoll::sim {

/// A link of the fabric, as it is simulated.
struct SimulatedLink {
  uint32_t from = 0, to = 0;  ///< nodes
  bool from_host = false, to_host = false;
  double ps_per_byte = 0;
  Time latency = 0;  ///< with that of the switch it leads to

  Time time(uint64_t bytes) const { return static_cast<Time>(bytes * ps_per_byte + 0.5); }
};

/// Routes between hosts, each added before the network is created. Hosts are numbered as the fabric
/// numbers them.
class Routes {
 public:
  /// `assign_lanes`: find virtual lanes, for what simulates packets.
  Routes(const topology::Fabric& fabric, bool assign_lanes);

  /// The route from host `from` to another host `to`, by number. Adding it again is free. Fails
  /// when keeping the network free of deadlock would take more virtual lanes than InfiniBand has.
  Result<uint32_t> add(uint32_t from, uint32_t to);

  /// The number of a route that has been added.
  uint32_t find(uint32_t from, uint32_t to) const { return by_source_[from][to]; }

  uint32_t hosts() const { return static_cast<uint32_t>(fabric_.hosts()); }
  uint32_t nodes() const { return static_cast<uint32_t>(fabric_.nodes()); }
  std::span<const SimulatedLink> links() const { return links_; }
  uint32_t lanes() const { return assigner_.lanes(); }
  uint32_t size() const { return static_cast<uint32_t>(lane_.size()); }

  /// The links of a route in order; at least one.
  std::span<const uint32_t> path(uint32_t route) const {
    return {path_.data() + first_[route], first_[route + 1] - first_[route]};
  }
  /// The same, ready to be walked: behind the last link stands another route's.
  const uint32_t* begin(uint32_t route) const { return path_.data() + first_[route]; }
  uint32_t lane(uint32_t route) const { return lane_[route]; }
  /// From the first bit in to the first bit out.
  Time latency(uint32_t route) const { return latency_[route]; }
  /// Of the slowest link.
  double ps_per_byte(uint32_t route) const { return ps_per_byte_[route]; }

 private:
  const topology::Fabric& fabric_;
  const bool assign_lanes_;
  std::vector<SimulatedLink> links_;
  topology::LaneAssigner assigner_;
  std::vector<uint32_t> between_;                 // of one route: links between switches
  std::vector<std::vector<uint32_t>> by_source_;  // route by destination, kNone: not added
  std::vector<uint32_t> path_;
  std::vector<size_t> first_{0};
  std::vector<uint8_t> lane_;
  std::vector<Time> latency_;
  std::vector<double> ps_per_byte_;
};

/// The closed form that simulated times without contention must equal: what a message takes from
/// its first bit out to its last bit in when it is alone.
/// - Cut through: its bytes, with a header for each packet, over the slowest link, and all
///   latencies; off by less than a packet's time where a slow link follows a fast one that follows
///   a slower one.
/// - Store and forward: the last packet leaves a link when it has come over the link before and the
///   full packets before it have left, one behind the other at the pace of the slowest link so far.
///   With links of one speed and whole packets: one packet's time more for each link but one.
Time uncontended_time(const Routes& routes, uint32_t route, uint64_t bytes, bool cut_through,
                      uint32_t mtu_bytes, uint32_t header_bytes);

}  // namespace ibcoll::sim
