#pragma once
/// Pictures of plans.

#include <string>

#include "engine/planner/contention_free/plan.h"

namespace ibcoll::contention_free {

/// The busiest links over time, a row each: when which transfer's bytes are on it, as planned, in
/// the colour of its sender, those that pass on others' data with a border.
Status draw_plan(const PlanInputs& inputs, const Plan& plan, const std::string& path);

}  // namespace ibcoll::contention_free
