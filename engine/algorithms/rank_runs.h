#pragma once
/// Ranks that follow each other: blocks of one size of theirs lie side by side in a buffer that has
/// a slot a rank.

#include <cstdint>

#include "engine/schedule/shape.h"

namespace ibcoll {

/// Calls visit(at, first, count) for each run: from ranks[at] on these are the ranks first ..
/// first + count - 1.
template <class Visit>
void for_each_run(RankSpan ranks, Visit&& visit) {
  for (uint32_t at = 0, end; at < ranks.size(); at = end) {
    for (end = at + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    visit(at, static_cast<uint32_t>(ranks[at]), end - at);
  }
}

/// True if they are one run.
inline bool side_by_side(RankSpan ranks) {
  int runs = 0;
  for_each_run(ranks, [&](uint32_t, uint32_t, uint32_t) { ++runs; });
  return runs <= 1;
}

}  // namespace ibcoll
