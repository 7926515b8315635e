#pragma once
/// What copying and waiting cost on this machine, and what follows from it for jobs.

#include "engine/base/json_lines.h"
#include "engine/base/result.h"

namespace ibcoll {

/// Measures, prints for people unless the objects go to standard output, and writes the objects:
/// lines that IBCOLL_COSTS takes.
Status report_costs(JsonLines& json);

}  // namespace ibcoll
