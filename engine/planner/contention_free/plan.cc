#include "engine/planner/contention_free/plan.h"

#include "engine/planner/contention_free/bound.h"
#include "engine/planner/contention_free/emit.h"
#include "engine/planner/contention_free/jobs.h"
#include "engine/planner/contention_free/list.h"

namespace ibcoll::contention_free {

namespace {

/// Smaller pieces and ways that use links more often are taken only where they save this part of
/// the time: they cost messages and bandwidth.
constexpr double kWorthMore = 0.03;
constexpr uint64_t kLeastPiece = 4096;
/// With more jobs than this only the largest pieces are tried.
constexpr size_t kManyForwards = 5'000;

/// Tries the ways to spread data for many and pieces of several sizes; leaves the best jobs and
/// size in the problem.
Result<Timing> best_spread(Problem& problem, int64_t bound_ns) {
  struct Choice {
    Spread spread;
    uint64_t piece_bytes;
  };
  std::vector<Choice> choices;
  for (const Spread spread :
       {Spread::kChain, Spread::kBranches, Spread::kHeads, Spread::kBinomial}) {
    for (uint64_t piece = problem.request.piece_bytes;; piece /= 2) {
      choices.push_back({spread, piece});
      if (piece / 2 < kLeastPiece || problem.jobs.size() > kManyForwards) break;
    }
    if (problem.request.permitted) break;  // one way only
  }
  Choice best{Spread::kChain, problem.request.piece_bytes};
  Timing timing;
  timing.time_ns = INT64_MAX;
  Spread made = best.spread;
  for (const Choice& choice : choices) {
    if (choice.spread != made) IBCOLL_TRY(make_jobs(problem, choice.spread));
    made = choice.spread;
    problem.piece_bytes = choice.piece_bytes;
    Timing tried = list_schedule(problem, bound_ns);
    const double worth =
        timing.time_ns == INT64_MAX ? 0 : kWorthMore * static_cast<double>(timing.time_ns);
    if (static_cast<double>(tried.time_ns) + worth >= static_cast<double>(timing.time_ns)) continue;
    timing = std::move(tried);
    best = choice;
  }
  if (made != best.spread) IBCOLL_TRY(make_jobs(problem, best.spread));
  problem.piece_bytes = best.piece_bytes;
  return timing;
}

Result<Plan> plan_list(Problem& problem, int64_t bound_ns) {
  IBCOLL_TRY(make_jobs(problem, Spread::kChain));
  const Kind kind = problem.request.kind;
  Timing timing;
  if (kind == Kind::kAllgather || kind == Kind::kBcast || kind == Kind::kReduce) {
    IBCOLL_ASSIGN(timing, best_spread(problem, bound_ns));
  } else {
    timing = list_schedule(problem, bound_ns);
  }
  Plan plan = emit_plan(problem, timing, problem.request.tokens_ahead);
  plan.planner = Planner::kList;
  return plan;
}

}  // namespace

Result<Plan> plan_transfers(const PlanRequest& request) {
  IBCOLL_ASSIGN(Problem problem, make_problem(request));
  const int64_t bound_ns = lower_bound_ns(problem);
  IBCOLL_ASSIGN(Plan plan, plan_list(problem, bound_ns));
  plan.policy = request.policy;
  plan.bound_ns = bound_ns;
  return plan;
}

}  // namespace ibcoll::contention_free
