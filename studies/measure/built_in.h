#pragma once
/// The engine's own choices as rules, for people to read and to start from.

#include <string>
#include <vector>

#include "engine/schedule/shape.h"
#include "engine/tuner/rules.h"

namespace ibcoll::measure {

/// What calls of all ranks of a job get by the table of choices, neighbour collectives left out: by
/// these rules they get the same, but where they want the order of ranks kept or a plan for the
/// network made. `job`: fits the shape. `costs_cores`: CallFacts::costs_cores. `notes`: for each
/// rule, on which conditions it rests.
RuleSection built_in_rules(const RulesJob& job, const Shape& shape, bool costs_cores,
                           std::vector<std::string>& notes);

}  // namespace ibcoll::measure
