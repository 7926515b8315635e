#pragma once
/// What planners of contention-free plans share: the inputs checked and turned into shipments, the
/// routes they take and what each link has to carry.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/planner/contention_free/plan.h"

namespace ibcoll::contention_free {

/// Of what is forwarded at least so many bytes go on at once.
inline constexpr uint64_t kLeastPiece = 512;

/// A link of a route.
struct Hop {
  int link;
  int units = 1;  ///< of the link that the shipment takes, in routes of shipments (Problem::route)
  int64_t before_ns;  ///< from the first byte leaving the sender to its entering the link
};

/// A route, to be walked into again and again without allocating.
struct Path {
  std::vector<Hop> hops;
  int64_t latency_ns = 0;  ///< of all of it
  double bandwidth = 0;    ///< of its slowest link, bytes a second
};

/// A transfer to be planned; `forwards` as in Transfer, always of a lower index.
struct Shipment {
  int32_t from = 0, to = 0, origin = 0, target = 0;
  uint64_t bytes = 0;
  uint32_t forwards = Transfer::kNone;
  double rate = 0;          ///< of its slowest link, and of no more than what it forwards
  int64_t duration_ns = 0;  ///< of its bytes at that rate
  int64_t latency_ns = 0;   ///< of its route
  int32_t part = 0;
};

/// What the shipments put on one directed link.
struct LinkUse {
  int64_t shipments = 0;
  double busy_ns = 0;                    ///< bytes over bandwidth
  double least_rate = 0, most_rate = 0;  ///< of its shipments
  int64_t shortest_ns = 0;               ///< of their durations
  int slots = 1;  ///< how many shipments of the least rate it carries at once
  int slots_of(double rate) const { return std::min(slots, parts(rate, 1)); }
  /// Slots are divided in so many units where rates are no multiples of the least: a shipment that
  /// is a little faster than the slowest should not take twice as much of the link.
  int fineness = 1;
  int units = 1;  ///< that it has
  int units_of(double rate) const {
    return units == 1 ? 1 : std::min(units, parts(rate, fineness));
  }

 private:
  int parts(double rate, int of) const {
    const double parts = rate * of / least_rate;
    const int whole = static_cast<int>(parts);
    return parts > whole + 1e-9 * of ? whole + 1 : whole;
  }
};

/// Inputs that have been checked.
struct Problem {
  explicit Problem(const PlanInputs& what) : inputs(what), fabric(*what.fabric) {}

  const PlanInputs& inputs;
  const topology::Fabric& fabric;
  int servers = 0;
  bool is_tree = false;      ///< switches are joined without a cycle
  uint64_t piece_bytes = 0;  ///< of what is forwarded
  int32_t parts = 1;         ///< that messages are cut into
  /// What is forwarded is all there before it goes on, and so may go on faster than it came.
  bool by_wholes = false;
  std::vector<int> hosts;     ///< of the fabric, by server
  std::vector<int> position;  ///< by server: its place when servers of a switch stand together
  std::vector<int> by_position;
  std::vector<int64_t> latencies;  ///< by pair of servers, where they will all be asked for
  std::vector<Shipment> shipments;
  std::vector<LinkUse> links;  ///< by link of the fabric
  /// The routes of the shipments one after the other, where they are not too many to keep: by
  /// shipment, where its route begins.
  std::vector<Hop> hops;
  std::vector<uint32_t> first_hop;

  /// The route of a shipment: as kept, or walked into `path`.
  std::span<const Hop> route(uint32_t shipment, Path& path) const {
    if (!first_hop.empty()) {
      return {hops.data() + first_hop[shipment], hops.data() + first_hop[shipment + 1]};
    }
    walk(shipments[shipment].from, shipments[shipment].to, path);
    for (Hop& hop : path.hops) hop.units = links[hop.link].units_of(shipments[shipment].rate);
    return path.hops;
  }
  /// Has the shipments of another way to plan the same inputs instead of its own.
  void take_shipments(Problem& other) {
    piece_bytes = other.piece_bytes;
    parts = other.parts;
    by_wholes = other.by_wholes;
    shipments.swap(other.shipments);
    links.swap(other.links);
    hops.swap(other.hops);
    first_hop.swap(other.first_hop);
  }
  /// The switch that a server is at.
  int leaf(int server) const { return fabric.switch_of(hosts[server]); }
  /// The route between two servers.
  void walk(int from, int to, Path& path) const;
  int64_t latency_ns(int from, int to) const {
    return latencies.empty() ? fabric.route_latency_ns(hosts[from], hosts[to])
                             : latencies[static_cast<size_t>(from) * servers + to];
  }
};

/// Checks inputs and numbers their servers; has no shipments yet.
Result<Problem> make_problem(const PlanInputs& inputs);

/// How long bytes take at a rate in bytes a second.
int64_t duration_ns(uint64_t bytes, double rate);
inline int64_t duration_ns(const Transfer& of) { return duration_ns(of.bytes, of.rate); }

/// Rates and durations of the shipments, and what the links carry.
void measure_shipments(Problem& problem);

/// When the first piece of a shipment that started at `start_ns` is at its receiver.
inline int64_t first_piece_ns(const Problem& problem, const Shipment& shipment, int64_t start_ns,
                              int64_t latency_ns) {
  return start_ns + latency_ns +
         duration_ns(std::min(shipment.bytes, problem.piece_bytes), shipment.rate);
}
/// The same of a transfer that has its times.
inline int64_t first_piece_ns(const Plan& plan, const Transfer& of) {
  return of.end_ns - duration_ns(of) + duration_ns(std::min(of.bytes, plan.piece_bytes), of.rate);
}

}  // namespace ibcoll::contention_free
