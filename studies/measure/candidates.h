#pragma once
/// Which algorithms and options are tried for a call, from the registry alone.

#include <cstdint>
#include <vector>

#include "engine/tuner/choose.h"
#include "engine/tuner/rules.h"

namespace ibcoll::measure {

/// What the engine chooses without rules, spelled out as far as the algorithm heeds it.
/// `block_bytes`: -1 where blocks may differ.
Rule own_choice(Collective collective, const Shape& shape, int64_t block_bytes);

/// The same of any choice. Pieces are named where they are not those that the engine takes for the
/// algorithm.
Rule as_rule(Collective collective, const Shape& shape, int64_t block_bytes, const Choice& choice);

/// All others than `own` that are worth a try, each with all sizes: every algorithm of the
/// collective; where servers are walked in steps in each pacing, and free with two steps in flight;
/// where blocks are passed on in pieces with fewer and more of them.
std::vector<Rule> other_choices(const Rule& own, const Shape& shape, int64_t block_bytes);

/// Whether both mean the same program and pieces; sizes and layout count for nothing.
bool same_choice(const Rule& a, const Rule& b);

}  // namespace ibcoll::measure
