#pragma once
/// Which servers of a direct network are neighbours.

#include <utility>
#include <vector>

#include "engine/planner/contention_free/model.h"

namespace ibcoll::contention_free {

/// Pairs of servers whose route passes the switch of no other, by sender. None where two servers
/// share a switch, or where there are too many pairs.
std::vector<std::pair<int, int>> neighbours(const Problem& problem);

}  // namespace ibcoll::contention_free
