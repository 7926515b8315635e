#pragma once
/// What algorithms have in common in which ranks combine what all ranks send them.

#include <numeric>
#include <vector>

#include "engine/algorithms/fold_plan.h"
#include "engine/algorithms/registry.h"

namespace ibcoll {

/// All ranks, in their order.
inline std::vector<Rank> all_ranks(const Shape& shape) {
  std::vector<Rank> ranks(static_cast<size_t>(shape.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// How `rank` combines what all ranks have.
inline FoldPlan fold_of_all(const Shape& shape, Rank rank, bool ordered) {
  std::vector<bool> apart;
  for (Rank other = 0; other < shape.ranks(); ++other) {
    apart.push_back(!shape.same_server(rank, other));
  }
  return {apart, rank, ordered};
}

}  // namespace ibcoll
