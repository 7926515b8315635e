#pragma once
/// How blocks are combined along the ring of ranks (server_ring.h).

#include <vector>

#include "engine/algorithms/server_ring.h"
#include "engine/schedule/builder.h"

namespace ibcoll {

/// Combines along the ring: what is for place p goes from p + 1 round to p, each rank adding its
/// own. `own(p)`: this rank's data for that place; it ends in `result`; `block(p)`: what scratch
/// for it holds. From step 0 on, size - 1 steps.
template <class Own, class BlockOf>
void combine_along(ProgramBuilder& program, const RankRing& ring, Slice result, Slice peers_result,
                   const Own& own, const BlockOf& block) {
  const size_t ranks = ring.size();
  std::vector<Block> scratch;
  for (size_t i = 0; i + 2 < ranks; ++i) scratch.push_back(block(ring.place_before(i + 2)));
  program.add_scratch(scratch);
  const auto landing = [&](size_t step, Slice last) {
    if (step + 2 == ranks) return last;
    return Slice{Buffer::kScratch, static_cast<uint32_t>(step), 1};
  };
  for (size_t i = 0; i + 1 < ranks; ++i) {
    const Slice passed = i == 0 ? own(ring.place_before(1))
                                : Slice{Buffer::kScratch, static_cast<uint32_t>(i - 1), 1};
    program.begin_step(static_cast<uint32_t>(i));
    program.begin_stream();
    program.put(ring.next(), passed, landing(i, peers_result));
    program.expect(ring.previous(), landing(i, result));
    program.reduce(landing(i, result), own(ring.place_before(i + 2)), {});
    program.end_stream();
  }
  if (ranks == 1) program.copy(result, own(0));
}

}  // namespace ibcoll
