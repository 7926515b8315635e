#pragma once
/// The option --graph of tools that run collectives.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "engine/schedule/collective.h"

namespace ibcoll::tools {

void add_graph_option(CLI::App& app, std::string& pattern);

/// The graph of that pattern; null where the collective has none. Refused where one is needed and
/// the pattern is empty, and the other way round.
Result<std::shared_ptr<const Graph>> graph_of(Collective collective, const std::string& pattern,
                                              const Shape& shape);

}  // namespace ibcoll::tools
