#pragma once
/// Graphs for the neighbour collectives, as options of tools name them.

#include <memory>
#include <string_view>

#include "engine/base/result.h"
#include "engine/schedule/graph.h"

namespace ibcoll::measure {

/// Edges of a pattern: "ring:K", to and from the K ranks on either side; "grid:AxBxC", all
/// neighbours in a periodic grid of any number of dimensions, diagonals too, whose sizes multiply
/// to the ranks; "random:K:SEED", K edges out of each rank; else the name of a file with a line
/// "source destination" an edge.
Result<std::shared_ptr<const Graph>> parse_graph(std::string_view pattern, const Shape& shape);
/// "ring:K, grid:AxBxC, ...": for help texts.
const char* graph_patterns();

}  // namespace ibcoll::measure
