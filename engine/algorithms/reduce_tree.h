#pragma once
/// Reductions along a tree: what algorithms with different trees have in common.

#include "engine/algorithms/registry.h"

namespace ibcoll {

/// Along a chain or a binomial tree; `name`: of the algorithm.
ProgramPtr reduce_along_tree(const char* name, bool chain, const Shape& shape, Rank me,
                             const AlgorithmOptions& options);

}  // namespace ibcoll
