#pragma once
/// The algorithms that programs may name.

#include <string>
#include <vector>

#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

/// All that are registered.
std::vector<NamedAlgorithm> registered_algorithms();

/// The broadcasts that multicasts may name on any number of servers, without those that carry out
/// plans for a network.
std::vector<std::string> registered_multicast_algorithms();

}  // namespace ibcoll::lockstep
