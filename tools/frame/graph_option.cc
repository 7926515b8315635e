#include "tools/frame/graph_option.h"

#include "studies/measure/graph_patterns.h"

namespace ibcoll::tools {

void add_graph_option(Command app, std::string& pattern) {
  app.option("--graph", pattern,
             fmt::format("Graph of a neighbour collective (who sends to whom): {}",
                         measure::graph_patterns()));
}

Result<std::shared_ptr<const Graph>> graph_of(Collective collective, const std::string& pattern,
                                              const Shape& shape) {
  if (has_graph(collective) && pattern.empty()) {
    return fail(ErrorCode::kInvalidArgument, "{} needs --graph: {}", to_string(collective),
                measure::graph_patterns());
  }
  if (!has_graph(collective) && !pattern.empty())
    return fail(ErrorCode::kInvalidArgument, "{} has no --graph", to_string(collective));
  if (pattern.empty()) return nullptr;
  return measure::parse_graph(pattern, shape);
}

}  // namespace ibcoll::tools
