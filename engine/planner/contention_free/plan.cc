#include "engine/planner/contention_free/plan.h"

#include <algorithm>
#include <bit>

#include "engine/planner/contention_free/bound.h"
#include "engine/planner/contention_free/direct.h"
#include "engine/planner/contention_free/emit_plan.h"
#include "engine/planner/contention_free/grouped.h"
#include "engine/planner/contention_free/list.h"
#include "engine/planner/contention_free/shipments.h"

namespace ibcoll::contention_free {

namespace {

/// Of a message that is relayed.
constexpr uint64_t kLeastRelayed = 4096;
/// With more shipments than this only the largest pieces are tried.
constexpr size_t kManyForwards = 5'000;

/// Programs don't cut what is combined for many: it goes on when all of it is there.
bool combines_for_many(Collective collective) {
  return reduces(collective) && !has_root(collective);
}

/// Tries the ways to spread data for many and pieces of several sizes; leaves the best shipments
/// and size in the problem.
Result<Timing> best_spread(Problem& problem, int64_t bound_ns) {
  struct Spreading {
    Spread spread;
    uint64_t piece_bytes;
  };
  uint64_t longest = 1;
  for (const Shipment& shipment : problem.shipments) longest = std::max(longest, shipment.bytes);
  const uint64_t whole = std::bit_ceil(longest);
  Spreading best{Spread::kChain, problem.inputs.piece_bytes}, made{Spread::kChain, 0};
  Timing timing;
  timing.time_ns = INT64_MAX;
  const auto make = [&](const Spreading& spreading) -> Status {
    problem.piece_bytes = spreading.piece_bytes;
    const bool by_pieces =
        spreading.spread == Spread::kEarliest || spreading.spread == Spread::kHeads;
    const bool same = spreading.spread == made.spread &&
                      (!by_pieces || spreading.piece_bytes == made.piece_bytes);
    made = spreading;
    return same ? Status{} : make_shipments(problem, spreading.spread);
  };
  std::vector<Spread> spreads = {Spread::kChain, Spread::kBranches, Spread::kHeads,
                                 Spread::kEarliest};
  const bool cut = !combines_for_many(problem.inputs.collective);
  // Where servers are joined directly by links as wide as their ports, a ring fills the ports.
  if (!cut || (problem.inputs.collective == Collective::kAllgather && is_direct(problem))) {
    spreads.insert(spreads.begin(), Spread::kRing);
  }
  for (const Spread spread : spreads) {
    const auto attempt = [&](uint64_t piece) -> Result<int64_t> {
      IBCOLL_TRY(make({spread, piece}));
      Timing tried = list_schedule(problem, bound_ns);
      const int64_t time_ns = tried.time_ns;
      if (worth_more(time_ns, timing.time_ns)) {
        timing = std::move(tried);
        best = made;
      }
      return time_ns;
    };
    const uint64_t largest = cut ? std::min(problem.inputs.piece_bytes, whole) : whole;
    if (!cut || problem.shipments.size() > kManyForwards) {
      IBCOLL_TRY(attempt(largest));
    } else {
      IBCOLL_TRY(halve_pieces(largest, attempt));
    }
    if (problem.inputs.permitted) break;               // one way only
    if (!worth_more(bound_ns, timing.time_ns)) break;  // nothing can be
  }
  IBCOLL_TRY(make(best));
  return timing;
}

/// Of data for many: where servers are joined directly from neighbour to neighbour, unless that is
/// not near the bound and something else is better.
Result<Timing> best_of_many(Problem& problem, int64_t bound_ns) {
  if (problem.inputs.collective == Collective::kReduce || !is_direct(problem)) {
    IBCOLL_TRY(make_shipments(problem, Spread::kChain));
    return best_spread(problem, bound_ns);
  }
  Problem other = problem;
  IBCOLL_ASSIGN(Timing timing, spread_directly(problem, bound_ns));
  const double near = (1 + kWorthMore) * static_cast<double>(bound_ns);
  if (static_cast<double>(timing.time_ns) <= near) return timing;
  IBCOLL_TRY(make_shipments(other, Spread::kChain));
  IBCOLL_ASSIGN(Timing spread, best_spread(other, bound_ns));
  if (spread.time_ns >= timing.time_ns) return timing;
  problem.take_shipments(other);
  return spread;
}

/// By link groups; with relaying only where that makes the whole plan shorter.
Plan plan_groups(Problem& problem, Planner planner) {
  const Grouping grouping = planner == Planner::kThesis ? Grouping::kThesis : Grouping::kFixed;
  Plan plan = plan_by_groups(problem, grouping, false);
  const bool straight = plan.transfers.size() == problem.shipments.size();
  if (problem.inputs.relay && straight && !problem.by_wholes) {
    // A message is passed on in about so many pieces.
    constexpr uint64_t kPieces = 16;
    const uint64_t pieces = problem.piece_bytes;
    uint64_t longest = 0;
    for (const Shipment& shipment : problem.shipments) longest = std::max(longest, shipment.bytes);
    problem.piece_bytes =
        std::min(pieces, std::max(kLeastRelayed, std::bit_ceil(longest / kPieces + 1)));
    Plan relayed = plan_by_groups(problem, grouping, true);
    problem.piece_bytes = pieces;
    if (relayed.time_ns < plan.time_ns) plan = std::move(relayed);
  }
  plan.planner = planner;
  return plan;
}

/// Where the list is within this part of the bound nothing else is tried, nor with more shipments.
constexpr double kNearBound = 1.01;
constexpr size_t kJobsForAll = 1'000;

Result<Plan> plan_any(Problem& problem, int64_t bound_ns) {
  const PlanInputs& inputs = problem.inputs;
  const bool listed = inputs.planner == Planner::kList || inputs.planner == Planner::kBest;
  Timing timing;
  if (spreads(inputs.collective) && listed) {
    IBCOLL_ASSIGN(timing, best_of_many(problem, bound_ns));
  } else {
    IBCOLL_TRY(make_shipments(problem, Spread::kChain));
    if (spreads(inputs.collective)) {
      IBCOLL_ASSIGN(timing, best_spread(problem, bound_ns));
    } else if (listed) {
      timing = list_schedule(problem, bound_ns);
    }
  }
  if (inputs.planner == Planner::kThesis || inputs.planner == Planner::kFixed) {
    return plan_groups(problem, inputs.planner);
  }
  Plan plan = emit_plan(problem, timing, inputs.tokens_ahead);
  plan.planner = Planner::kList;
  const bool near = static_cast<double>(plan.time_ns) <= kNearBound * static_cast<double>(bound_ns);
  if (inputs.planner == Planner::kList || near || problem.parts > 1 ||
      problem.shipments.size() > kJobsForAll) {
    return plan;
  }
  for (const Planner planner : {Planner::kFixed, Planner::kThesis}) {
    Plan other = plan_groups(problem, planner);
    // Each transfer of these waits for tokens of others that wait: a little is soon lost.
    const bool many =
        combines_for_many(inputs.collective) || (spreads(inputs.collective) && is_direct(problem));
    const double part = many ? 1 - kWorthMore : 1;
    if (static_cast<double>(other.time_ns) < part * static_cast<double>(plan.time_ns)) {
      plan = std::move(other);
    }
  }
  return plan;
}

}  // namespace

Result<int64_t> lower_bound_ns(const PlanInputs& inputs, bool relayed) {
  IBCOLL_ASSIGN(const Problem problem, make_problem(inputs));
  return lower_bound_ns(problem, relayed);
}

uint32_t packet_bytes(const Plan& plan) {
  constexpr uint64_t kPackets = 256, kLeastPacket = 1024, kMostPacket = 1 << 20;
  uint64_t longest = 0;
  for (const Transfer& transfer : plan.transfers) longest = std::max(longest, transfer.bytes);
  return static_cast<uint32_t>(std::clamp<uint64_t>(longest / kPackets, kLeastPacket, kMostPacket));
}

Result<Plan> plan_transfers(const PlanInputs& inputs) {
  IBCOLL_ASSIGN(Problem problem, make_problem(inputs));
  const int64_t bound_ns = lower_bound_ns(problem);
  IBCOLL_ASSIGN(Plan plan, plan_any(problem, bound_ns));
  plan.policy = inputs.policy;
  plan.bound_ns = plan.relayed_bytes > 0 ? lower_bound_ns(problem, true) : bound_ns;
  return plan;
}

}  // namespace ibcoll::contention_free
