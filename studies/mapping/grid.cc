#include "studies/mapping/grid.h"

#include <fmt/ranges.h>

#include "engine/base/units.h"

namespace ibcoll::topology {

Result<Grid> Grid::create(std::vector<int> sides, bool torus) {
  if (sides.empty() || sides.size() > kMaxDimensions) {
    return fail(ErrorCode::kInvalidArgument, "{} dimensions: a grid has 1 to {}", sides.size(),
                kMaxDimensions);
  }
  Grid grid;
  int64_t nodes = 1;
  for (const int side : sides) {
    if (side < 1) return fail(ErrorCode::kInvalidArgument, "a side of {} nodes: at least 1", side);
    grid.strides_.push_back(static_cast<int>(nodes));
    nodes *= side;
    if (nodes > kMaxNodes) {
      return fail(ErrorCode::kInvalidArgument, "{} has more than {} nodes", fmt::join(sides, "x"),
                  kMaxNodes);
    }
  }
  grid.sides_ = std::move(sides);
  grid.torus_ = torus;
  grid.nodes_ = static_cast<int>(nodes);
  for (int node = 0; node < grid.nodes_; ++node) {
    for (int d = 0; d < grid.dimensions(); ++d) {
      grid.coordinates_.push_back(node / grid.strides_[d] % grid.sides_[d]);
    }
  }
  for (const int side : grid.sides_) {
    grid.zero_.push_back(static_cast<int>(grid.steps_.size()) + side - 1);
    for (int offset = 1 - side; offset < side; ++offset) {
      int hops = offset;
      if (torus && 2 * offset > side) hops = offset - side;
      if (torus && 2 * offset < -side) hops = offset + side;
      grid.steps_.push_back(hops);
    }
  }
  return grid;
}

Result<Grid> Grid::parse(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (colon == std::string_view::npos || (kind != "torus" && kind != "mesh")) {
    return fail(ErrorCode::kInvalidArgument, "network \"{}\": expected torus:AxBxC or mesh:AxBxC",
                text);
  }
  std::vector<int> sides;
  for (const std::string_view part : split(text.substr(colon + 1), 'x')) {
    IBCOLL_ASSIGN(const int64_t side,
                  parse_integer(part, 1, kMaxNodes, fmt::format("side of \"{}\"", text)));
    sides.push_back(static_cast<int>(side));
  }
  return create(std::move(sides), kind == "torus");
}

std::string Grid::name() const {
  return fmt::format("{}:{}", torus_ ? "torus" : "mesh", fmt::join(sides_, "x"));
}

int Grid::node_at(const std::vector<int>& coordinates) const {
  int node = 0;
  for (int d = 0; d < dimensions(); ++d) node += coordinates[d] * strides_[d];
  return node;
}

int Grid::usable_links() const {
  int links = 0;
  for (const int side : sides_) {
    // A ring of two keeps one link a direction: the way that does not wrap is always taken.
    const int a_line = side == 1 ? 0 : torus_ && side > 2 ? 2 * side : 2 * (side - 1);
    links += nodes_ / side * a_line;
  }
  return links;
}

}  // namespace ibcoll::topology
