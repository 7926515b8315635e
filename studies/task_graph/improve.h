#pragma once
/// A search over sequences of placed tasks (decode.h).

#include <vector>

#include "studies/task_graph/decode.h"

namespace ibcoll::task_graph {

/// Simulated annealing over sequences: tasks move in order and between processors, and are
/// duplicated. From each of the shortest starts in turn (fewer of them, the larger the graph), then
/// from the best so far. `effort`: how many tasks it may decode. Deterministic for a seed.
std::vector<PlacedTask> improve(const TaskGraph& graph, const LogP& logp, int processors,
                                const std::vector<std::vector<PlacedTask>>& starts, int64_t effort,
                                uint64_t seed);

}  // namespace ibcoll::task_graph
