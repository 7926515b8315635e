#pragma once
/// Which algorithms there are, for tests that go through all of them or expect their names: a new
/// one is among them by itself.

#include <span>
#include <string>
#include <vector>

#include "engine/algorithms/registry.h"

namespace ibcoll::testing {

/// Those of a collective.
std::vector<const Algorithm*> algorithms_of(Collective collective);
/// Without those that carry out a plan for a network (AlgorithmSpec::planned).
std::vector<const Algorithm*> unplanned_algorithms_of(Collective collective);

/// As messages list them: "linear, ring".
std::string names_of(std::span<const Algorithm* const> some);

}  // namespace ibcoll::testing
