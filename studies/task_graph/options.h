#pragma once
/// What users write on a command line about schedules.

#include <string>
#include <vector>

#include "studies/task_graph/schedulers.h"

namespace ibcoll::task_graph {

/// "4", "2-16", "2,4,8", 1 to 4096 each; empty: what there is otherwise.
Result<std::vector<int>> parse_processors(const std::string& text, int otherwise);

/// "paper" (table 1's for that many processors) or "os,or,L[,per_result]", in the unit of a graph's
/// weights.
Result<LogP> parse_logp(const std::string& text, int processors);

/// Names with commas between; "all" for all but the exhaustive search.
Result<std::vector<const Scheduler*>> parse_schedulers(const std::string& names);

}  // namespace ibcoll::task_graph
