/// Scan and exscan by recursive doubling (as MPICH's), for any number of ranks: in step k the ranks
/// of the second half of each run of 2^(k + 1) get what the first half has combined, and put it
/// before what they have; where others need that, halves combine all of it. So what each
/// rank gets is combined by the tree of rank_order.h. For short blocks.
/// Steps: ceil(log2 P). Messages: one a step. Bytes: as many blocks. Scratch: as many slots.

#include "engine/algorithms/registry.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

/// Whether a rank passes on what all of its run of so many ranks have.
bool needs_run(Rank rank, Rank length, Rank ranks) {
  for (; length < ranks; length *= 2) {
    const Rank other = rank ^ length;
    if (other >= ranks) return false;
    if (other > rank) return true;
    rank = other;  // which combines both runs, if it needs that
  }
  return false;
}

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "doubling", shape, me, options);
  const Rank ranks = shape.ranks();
  // Where what comes in a step lands.
  const auto place_at = [&](Rank rank, Rank half) {
    uint32_t before = 0;
    for (Rank h = 1; h < half; h *= 2) {
      if ((rank ^ h) >= ranks) continue;
      before += (rank & h) != 0 || needs_run(rank, 2 * h, ranks) ? 1 : 0;
    }
    return Slice{Buffer::kScratch, before, 1};
  };
  const Block combined{Block::kCombined, Block::kEveryone};
  bool written = collective == Collective::kScan;
  if (written) program.copy(recv_slot(0), send_slot(0));
  Slice run = send_slot(0);  // what all of this rank's run have, combined
  uint32_t step = 0;
  for (Rank half = 1; half < ranks; half *= 2, ++step) {
    const Rank other = me ^ half;
    if (other >= ranks) continue;
    const bool second = (me & half) != 0, whole = needs_run(me, 2 * half, ranks);
    program.begin_step(step);
    if (!second || needs_run(other, 2 * half, ranks))
      program.put(other, run, place_at(other, half));
    if (!second && !whole) continue;
    const Slice place = place_at(me, half);
    program.add_scratch({&combined, 1});
    program.expect(other, place);
    if (second && written) {
      program.reduce(recv_slot(0), place, {.ordered = true, .before = true});
    } else if (second) {
      program.copy(recv_slot(0), place);
      written = true;
    }
    if (whole) {
      program.reduce(place, run, {.ordered = true, .before = !second});
      run = place;
    }
  }
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "doubling",
    .collectives = {Collective::kScan, Collective::kExscan},
    .summary = "log2 P steps, in which runs of ranks tell the next",
    .when = "short blocks; in order",
    .source = "MPICH",
    .relays = true,
    .keeps_order = on_every_shape,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
