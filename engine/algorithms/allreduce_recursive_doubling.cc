/// Recursive doubling allreduce (Thakur, Rabenseifner, Gropp 2005, section 4.5), for any number of
/// ranks: in step k the two halves of each run of 2^(k + 1) ranks exchange what they have combined,
/// rank by rank. Where the second half has s < 2^k ranks, each of those sends to the ranks of the
/// first whose number is the same modulo s. So results are combined by the tree of rank_order.h.
/// For short blocks. Steps: ceil(log2 P). Messages: one a step, at most 2^k of a rank in a short
/// half. Bytes: as many blocks. Scratch: ceil(log2 P) - 1 slots.

#include <algorithm>

#include "engine/algorithms/exchange_plans.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kAllreduce, "recursive_doubling", shape, me, options);
  const Rank ranks = shape.ranks();
  /// The last step in which a rank's run has a second half.
  const auto last_of = [&](Rank rank) {
    Rank last = 0;
    for (Rank half = 1; half < ranks; half *= 2) {
      if (rank / (2 * half) * (2 * half) + half < ranks) last = half;
    }
    return last;
  };
  // What comes last lands where the result goes, what comes before in scratch, in order.
  const auto place_at = [&](Rank rank, Rank half) {
    if (half == last_of(rank)) return recv_slot(0);
    uint32_t before = 0;
    for (Rank h = 1; h < half; h *= 2) before += rank / (2 * h) * (2 * h) + h < ranks ? 1 : 0;
    return Slice{Buffer::kScratch, before, 1};
  };
  Slice mine = send_slot(0);
  uint32_t step = 0;
  for (Rank half = 1; half < ranks; half *= 2, ++step) {
    const Rank first = me / (2 * half) * (2 * half), middle = first + half;
    if (middle >= ranks) continue;
    const Rank seconds = std::min(half, ranks - middle);
    program.begin_step(step);
    const Slice place = place_at(me, half);
    if (place.buffer == Buffer::kScratch) {
      const Block combined{Block::kCombined, Block::kEveryone};
      program.add_scratch({&combined, 1});
    }
    const bool second = me >= middle;
    Rank from = first + (me - middle);
    if (second) {
      for (Rank to = from; to < middle; to += seconds) program.put(to, mine, place_at(to, half));
    } else {
      from = middle + (me - first) % seconds;
      if (me - first < seconds) program.put(me + half, mine, place_at(me + half, half));
    }
    program.expect(from, place);
    // What has come is combined with what this rank has, not the other way round: that is still
    // being read.
    program.reduce(place, mine, {.ordered = true, .before = !second});
    mine = place;
  }
  if (ranks == 1) program.copy(recv_slot(0), send_slot(0));
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "recursive_doubling",
    .collectives = {Collective::kAllreduce},
    .summary = "log2 P exchanges of all that is combined",
    .when = "short blocks",
    .source = "Thakur 2005, section 4.5",
    .relays = true,
    .keeps_order = on_every_shape,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
