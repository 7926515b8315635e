#include "engine/algorithms/server_tree.h"

namespace ibcoll {

ServerLine::ServerLine(const Shape& shape, Rank root)
    : shape_(&shape), root_(root), first_(shape.server_of(root)) {}

Rank ServerLine::leader(int place) const {
  return place == 0 ? root_ : shape_->rank_at(server_at(place), 0);
}

std::vector<Rank> ServerLine::ranks(int first, int end) const {
  std::vector<Rank> result;
  for (int place = first; place < end; ++place) {
    const auto members = shape_->members(server_at(place));
    result.insert(result.end(), members.begin(), members.end());
  }
  return result;
}

}  // namespace ibcoll
