#pragma once
/// List scheduling: every shipment in some order, each at the earliest time at which all links of
/// its route are free for it, gaps between earlier ones included.

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// When each shipment starts.
struct Timing {
  std::vector<int64_t> start_ns;
  int64_t time_ns = 0;
};

/// Orders worth trying, in the order in which they are tried.
enum class Order : uint8_t {
  kShift,  ///< round j: every server to the one j further on; data for many: as the shipments stand
  kEven,   ///< rounds of kShift in an order that loads the busiest links evenly
  kPhases,   ///< phase_order(): where it has one
  kRounds,   ///< round_order(): where it has one
  kBusiest,  ///< what passes the busiest links first, then as kShift
  kLongest,  ///< the longest first, then as kShift
  kNearest,  ///< nearest first; of a scatter farthest first
  kRandom,
};
inline constexpr int kOrders = 8;

/// The shipments in that order.
std::vector<uint32_t> order_shipments(const Problem& problem, Order order);

/// Where a shipment may go on the links of its route.
enum class Place : uint8_t {
  kInTurn,  ///< after all that is placed already
  kInGaps,  ///< at the earliest time
};

/// Places the shipments in an order in which each comes after what it forwards. Gives up, with a
/// time of INT64_MAX, when some shipment ends later than `limit_ns`.
Timing place_shipments(const Problem& problem, const std::vector<uint32_t>& order, Place place,
                       int64_t limit_ns);

/// The best of several orders, of as many as the number of shipments allows.
Timing list_schedule(const Problem& problem, int64_t bound_ns);

/// Smaller pieces and ways that use links more often are taken only where they save this part of
/// the time: they cost messages and bandwidth.
inline constexpr double kWorthMore = 0.03;
inline bool worth_more(int64_t time_ns, int64_t than_ns) {
  return than_ns == INT64_MAX ||
         static_cast<double>(time_ns) < (1 - kWorthMore) * static_cast<double>(than_ns);
}

/// Calls `attempt(piece_bytes)`, which returns the time that comes of it, with pieces of `largest`
/// and then of half as much, as long as that is worth it.
template <class Attempt>
Status halve_pieces(uint64_t largest, Attempt&& attempt) {
  int64_t last_ns = INT64_MAX;
  for (uint64_t piece = largest; piece == largest || piece >= kLeastPiece; piece /= 2) {
    IBCOLL_ASSIGN(const int64_t time_ns, attempt(piece));
    if (!worth_more(time_ns, last_ns)) break;
    last_ns = time_ns;
  }
  return {};
}

}  // namespace ibcoll::contention_free
