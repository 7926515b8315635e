#pragma once
/// What communication costs on this machine, for tools that show it.

#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/costs/machine_costs.h"
#include "engine/costs/measure_costs.h"

namespace ibcoll {

/// All figures between the processors that this process may use, and between which pairs they are.
struct CostsHere {
  std::vector<CorePair> pairs;
  MachineCosts costs;
};
/// Takes about a second. Fails, too, where there are no two processors.
Result<CostsHere> measure_costs_here();

/// A figure for people: "120", of several lengths "98.5, 310, 1440"; "-": not measured.
std::string figure_text(const Figure<PairCosts>& figure, const PairCosts& costs);
std::string figure_text(const Figure<MachineCosts>& figure, const MachineCosts& costs);

}  // namespace ibcoll
