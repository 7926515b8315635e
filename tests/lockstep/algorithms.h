#pragma once
/// The algorithms that programs may name.

#include <vector>

#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

/// All that are registered, but for those that need the description of a network.
std::vector<NamedAlgorithm> registered_algorithms();

}  // namespace ibcoll::lockstep
