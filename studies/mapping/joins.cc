#include "studies/mapping/joins.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ibcoll::topology {
namespace {

int volume(const Shape& shape) {
  int product = 1;
  for (const int side : shape) product *= side;
  return product;
}

}  // namespace

std::vector<Join> plan_joins(const Shape& whole, int dimensions) {
  // Children are smaller than their parents: by falling volume all of a box's parents come first.
  std::map<std::pair<int, Shape>, Join> joins;
  joins[{-volume(whole), whole}].wanted = 1;
  for (auto it = joins.begin(); it != joins.end(); ++it) {
    Join& join = it->second;
    join.shape = join.first = join.second = it->first.second;
    for (int d = 0; d < dimensions; ++d) {
      if (join.shape[d] >= join.shape[join.dimension]) join.dimension = d;
    }
    const int side = join.shape[join.dimension];
    if (side == 1) continue;
    join.first[join.dimension] = (side + 1) / 2;
    join.second[join.dimension] = side / 2;
    for (const Shape& part : {join.first, join.second}) {
      joins[{-volume(part), part}].wanted += join.wanted;
    }
  }
  std::vector<Join> ascending;
  for (auto it = joins.rbegin(); it != joins.rend(); ++it) {
    Join& join = it->second;
    if (volume(join.shape) == 1) continue;
    const auto level_of = [&](const Shape& part) { return joins[{-volume(part), part}].level; };
    join.level = 1 + std::max(level_of(join.first), level_of(join.second));
    ascending.push_back(join);
  }
  std::stable_sort(ascending.begin(), ascending.end(),
                   [](const Join& a, const Join& b) { return a.level < b.level; });
  return ascending;
}

void thin_out(std::vector<Orientation>& turns, size_t most) {
  const size_t step = (turns.size() + most - 1) / most;
  size_t kept = 0;
  for (size_t i = 0; i < turns.size(); i += step) turns[kept++] = turns[i];
  turns.resize(kept);
}

std::vector<Orientation> orientations(const Shape& shape, int mirrored_only) {
  std::vector<Orientation> all;
  Orientation current;
  for (size_t d = 0; d < shape.size(); ++d) current.axis[d] = static_cast<int>(d);
  do {
    bool keeps_shape = true;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int from = current.axis[d];
      keeps_shape &= shape[from] == shape[d] && (shape[d] > 1 || from == static_cast<int>(d));
    }
    if (!keeps_shape) continue;
    for (unsigned mirrors = 0; mirrors < (1u << shape.size()); ++mirrors) {
      bool sensible = true;
      for (size_t d = 0; d < shape.size(); ++d) {
        current.mirrored[d] = (mirrors >> d & 1) != 0;
        const bool allowed =
            shape[d] > 1 && (mirrored_only < 0 || mirrored_only == static_cast<int>(d));
        sensible &= !current.mirrored[d] || allowed;
      }
      if (sensible) all.push_back(current);
    }
  } while (std::next_permutation(current.axis.begin(), current.axis.end()));
  return all;
}

}  // namespace ibcoll::topology
