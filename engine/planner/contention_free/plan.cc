#include "engine/planner/contention_free/plan.h"

#include <algorithm>
#include <bit>

#include "engine/planner/contention_free/bound.h"
#include "engine/planner/contention_free/emit.h"
#include "engine/planner/contention_free/grouped.h"
#include "engine/planner/contention_free/jobs.h"
#include "engine/planner/contention_free/list.h"

namespace ibcoll::contention_free {

namespace {

/// Smaller pieces and ways that use links more often are taken only where they save this part of
/// the time: they cost messages and bandwidth.
constexpr double kWorthMore = 0.03;
/// Of a message that is relayed.
constexpr uint64_t kLeastRelayed = 4096;
/// With more jobs than this only the largest pieces are tried.
constexpr size_t kManyForwards = 5'000;

/// Programs don't cut what is combined for many: it goes on when all of it is there.
bool combines_for_many(Kind kind) {
  return kind == Kind::kReduceScatter || kind == Kind::kAllreduce;
}

/// Tries the ways to spread data for many and pieces of several sizes; leaves the best jobs and
/// size in the problem.
Result<Timing> best_spread(Problem& problem, int64_t bound_ns) {
  struct Choice {
    Spread spread;
    uint64_t piece_bytes;
  };
  uint64_t longest = 1;
  for (const Job& job : problem.jobs) longest = std::max(longest, job.bytes);
  const uint64_t whole = std::bit_ceil(longest);
  Choice best{Spread::kChain, problem.request.piece_bytes}, made{Spread::kChain, 0};
  Timing timing;
  timing.time_ns = INT64_MAX;
  const auto make = [&](const Choice& choice) -> Status {
    problem.piece_bytes = choice.piece_bytes;
    const bool by_pieces = choice.spread == Spread::kEarliest || choice.spread == Spread::kHeads;
    const bool same =
        choice.spread == made.spread && (!by_pieces || choice.piece_bytes == made.piece_bytes);
    made = choice;
    return same ? Status{} : make_jobs(problem, choice.spread);
  };
  const auto worth = [](int64_t time_ns, int64_t than_ns) {
    return than_ns == INT64_MAX ||
           static_cast<double>(time_ns) < (1 - kWorthMore) * static_cast<double>(than_ns);
  };
  std::vector<Spread> spreads = {Spread::kChain, Spread::kBranches, Spread::kHeads,
                                 Spread::kEarliest};
  const bool cut = !combines_for_many(problem.request.kind);
  if (!cut) spreads.insert(spreads.begin(), Spread::kRing);
  for (const Spread spread : spreads) {
    int64_t last_ns = INT64_MAX;  // with pieces twice as large
    for (uint64_t piece = cut ? std::min(problem.request.piece_bytes, whole) : whole;; piece /= 2) {
      IBCOLL_TRY(make({spread, piece}));
      Timing tried = list_schedule(problem, bound_ns);
      const bool smaller = worth(tried.time_ns, last_ns);
      last_ns = tried.time_ns;
      if (worth(tried.time_ns, timing.time_ns)) {
        timing = std::move(tried);
        best = made;
      }
      if (!cut || !smaller || piece / 2 < kLeastPiece || problem.jobs.size() > kManyForwards) break;
    }
    if (problem.request.permitted) break;  // one way only
  }
  IBCOLL_TRY(make(best));
  return timing;
}

/// By link groups; with relaying only where that makes the whole plan shorter.
Plan plan_groups(Problem& problem, Planner planner) {
  const Grouping grouping = planner == Planner::kThesis ? Grouping::kThesis : Grouping::kFixed;
  Plan plan = plan_by_groups(problem, grouping, false);
  if (problem.request.relay && plan.transfers.size() == problem.jobs.size()) {
    // A message is passed on in about so many pieces.
    constexpr uint64_t kPieces = 16;
    const uint64_t pieces = problem.piece_bytes;
    uint64_t longest = 0;
    for (const Job& job : problem.jobs) longest = std::max(longest, job.bytes);
    problem.piece_bytes =
        std::min(pieces, std::max(kLeastRelayed, std::bit_ceil(longest / kPieces + 1)));
    Plan relayed = plan_by_groups(problem, grouping, true);
    problem.piece_bytes = pieces;
    if (relayed.time_ns < plan.time_ns) plan = std::move(relayed);
  }
  plan.planner = planner;
  return plan;
}

/// Where the list is within this part of the bound nothing else is tried, nor with more jobs.
constexpr double kNearBound = 1.01;
constexpr size_t kJobsForAll = 1'000;

Result<Plan> plan_any(Problem& problem, int64_t bound_ns) {
  const PlanRequest& request = problem.request;
  IBCOLL_TRY(make_jobs(problem, Spread::kChain));
  Timing timing;
  if (spreads(request.kind)) {
    IBCOLL_ASSIGN(timing, best_spread(problem, bound_ns));
  } else if (request.planner == Planner::kList || request.planner == Planner::kBest) {
    timing = list_schedule(problem, bound_ns);
  }
  if (request.planner == Planner::kThesis || request.planner == Planner::kFixed) {
    return plan_groups(problem, request.planner);
  }
  Plan plan = emit_plan(problem, timing, request.tokens_ahead);
  plan.planner = Planner::kList;
  const bool near = static_cast<double>(plan.time_ns) <= kNearBound * static_cast<double>(bound_ns);
  if (request.planner == Planner::kList || near || problem.jobs.size() > kJobsForAll) return plan;
  for (const Planner planner : {Planner::kFixed, Planner::kThesis}) {
    Plan other = plan_groups(problem, planner);
    // Each transfer of these waits for tokens of others that wait: a little is soon lost.
    const double part = combines_for_many(request.kind) ? 1 - kWorthMore : 1;
    if (static_cast<double>(other.time_ns) < part * static_cast<double>(plan.time_ns)) {
      plan = std::move(other);
    }
  }
  return plan;
}

}  // namespace

Result<int64_t> lower_bound_ns(const PlanRequest& request) {
  IBCOLL_ASSIGN(const Problem problem, make_problem(request));
  return lower_bound_ns(problem);
}

Result<Plan> plan_transfers(const PlanRequest& request) {
  IBCOLL_ASSIGN(Problem problem, make_problem(request));
  const int64_t bound_ns = lower_bound_ns(problem);
  IBCOLL_ASSIGN(Plan plan, plan_any(problem, bound_ns));
  plan.policy = request.policy;
  plan.bound_ns = bound_ns;
  return plan;
}

}  // namespace ibcoll::contention_free
