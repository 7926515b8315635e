#pragma once
/// What is shown of plans: JSON, a table, and plots that compare them.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "studies/drawing/plot.h"
#include "studies/simulate/plan_study.h"

namespace ibcoll::sim {

/// One plan and how it was asked for.
struct PlanRow {
  std::string network;  ///< as it was asked for
  contention_free::Planner asked = contention_free::Planner::kBest;
  int64_t size = 0;  ///< of a block
  bool relay = false;
  bool checked = false;        ///< was to be proved
  double wrong = 0;            ///< the planner's figures, by up to this part
  std::string error = "auto";  ///< what the planner was told of that
  PlanResult result;

  /// Whether the plan goes by link groups, whose policy and relaying mean something.
  bool by_policy() const { return result.plan.planner != contention_free::Planner::kList; }
};

/// Without what differs from run to run of the same but for plan_ms and the cache's times.
nlohmann::ordered_json to_json(const PlanRow& row);

std::string plan_table(const std::vector<PlanRow>& rows);

/// What a comparison shows.
enum class PlanMeasure { kOverBound, kSimulated, kPlanned, kGroups, kWaited };
/// "over_bound", "simulated_us", "plan_ms", "groups", "waited_us": names of to_json.
Result<PlanMeasure> parse_measure(std::string_view text);

/// A line for each planner, policy and whatever else differs, over the part by which figures are
/// wrong where that does, else over servers where networks differ, else over sizes. Of several
/// plans at one place (of different seeds) the largest.
Plot plan_comparison(const std::vector<PlanRow>& rows, PlanMeasure measure);

}  // namespace ibcoll::sim
