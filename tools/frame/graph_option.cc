#include "tools/frame/graph_option.h"

namespace ibcoll::tools {

void add_graph_option(Command app, std::string& pattern) {
  app.option("--graph", pattern,
             fmt::format("Of neighbour collectives, who sends to whom: {}", graph_patterns()));
}

Result<std::shared_ptr<const Graph>> graph_of(Collective collective, const std::string& pattern,
                                              const Shape& shape) {
  if (has_graph(collective) && pattern.empty()) {
    return fail(ErrorCode::kInvalidArgument, "{} needs --graph: {}", to_string(collective),
                graph_patterns());
  }
  if (!has_graph(collective) && !pattern.empty())
    return fail(ErrorCode::kInvalidArgument, "{} has no --graph", to_string(collective));
  if (pattern.empty()) return nullptr;
  return parse_graph(pattern, shape);
}

}  // namespace ibcoll::tools
