#pragma once
/// Plans a collective, proves the plan, runs it on a simulated network, and says how much of it is
/// left to chance where the network's figures are wrong.

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/result.h"
#include "engine/planner/contention_free/plan.h"
#include "topology/fabric.h"

namespace ibcoll::sim {

/// What is to be found out about a plan.
struct PlanStudy {
  const topology::Fabric* fabric = nullptr;    ///< what the plan is run on
  const topology::Fabric* believed = nullptr;  ///< what it is made for; the same where all is known
  const topology::Fabric* said = nullptr;      ///< its figures as the planner was told them
  double wrong = 0;                            ///< how far those are off: state the jitter for that
  bool check = false;                          ///< prove it
  bool simulate = true;                        ///< run it
  bool lookup = false;                         ///< time the plan cache
};

struct PlanResult {
  contention_free::Plan plan;                     ///< its bound is that of the fabric it is run on
  size_t tasks = 0, tokens = 0;                   ///< of the plan
  double plan_ms = 0;                             ///< CPU time
  std::optional<double> simulated_us, waited_us;  ///< PlanTimes
  /// The most that a transfer may wait for others where the figures are wrong (wait_bound_us).
  std::optional<double> jitter_us;
  std::optional<double> lookup_ns, lookup_counts_ns;  ///< by size of block, by all sizes
  std::string violation;                              ///< empty: right, or not checked

  double time_us() const {
    return simulated_us ? *simulated_us : static_cast<double>(plan.time_ns) * 1e-3;
  }
  double over_bound() const {
    return plan.bound_ns == 0 ? 1 : time_us() * 1e3 / static_cast<double>(plan.bound_ns);
  }
};

/// `inputs` is for study.believed, which it need not name.
Result<PlanResult> study_plan(const PlanStudy& study, contention_free::PlanInputs inputs);

/// The most that any transfer of a plan waits for others on its links, in us, where the figures
/// that are `said` of the network are off by up to `r`. Cables of a kind that are `believed` to be
/// alike, for which the plan was made, are, and wrong together: their true bandwidth or latency is
/// the mean of what is said over 1 - r or over 1 + r. The plan is run on networks with all
/// combinations of these extremes and, since some transfers meet only there, with each extreme
/// alone; where there are more than 16 combinations, on 16 drawn from them instead. And once with
/// the means. In between data may wait for another packet: one on the slowest link is added.
Result<double> wait_bound_us(const topology::Fabric& said, const topology::Fabric& believed,
                             const std::vector<int>& hosts, const contention_free::Plan& plan,
                             double r);

}  // namespace ibcoll::sim
