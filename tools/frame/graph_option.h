#pragma once
/// The option --graph of tools that run collectives.

#include <memory>
#include <string>

#include "engine/schedule/collective.h"
#include "tools/frame/command_line.h"

namespace ibcoll::tools {

void add_graph_option(Command app, std::string& pattern);

/// The graph of that pattern; null where the collective has none. Refused where one is needed and
/// the pattern is empty, and the other way round.
Result<std::shared_ptr<const Graph>> graph_of(Collective collective, const std::string& pattern,
                                              const Shape& shape);

}  // namespace ibcoll::tools
