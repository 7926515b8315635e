/// Recursive halving reduce_scatter(_block) (Thakur, Rabenseifner, Gropp 2005, section 4.2), for
/// any number of ranks: in each step a rank and its partner, half as far away as in the step
/// before, exchange what the other one's half of the ranks is to get, and combine. With 2^m + r
/// ranks the first 2r act in pairs: the odd one hands its data to the even one before and gets its
/// block after. Few messages: for short blocks. Steps: floor(log2 P), 2 more where P is no power of
/// two. Messages a rank: at most as many. Bytes: P - 1 blocks, up to P in pairs. Scratch:
/// P - 1 slots, up to 2.4 times that in pairs.

#include <bit>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

/// Actors are ranks, or the even ones of pairs: actor a is rank 2a if it acts for a pair, else rank
/// a + pairs, so that actors in sequence act for ranks in sequence.
struct Actors {
  explicit Actors(int ranks)
      : count(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        pairs(ranks - count) {}
  Rank first_rank(int actor) const { return actor < pairs ? 2 * actor : actor + pairs; }
  /// How many ranks actors first .. end - 1 act for.
  uint32_t slots(int first, int end) const {
    return static_cast<uint32_t>(first_rank(end) - first_rank(first));
  }
  int count, pairs;
};

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "halving", shape, me, options);
  const int ranks = shape.ranks();
  const Actors actors(ranks);
  const bool paired = me < 2 * actors.pairs;
  const Slice everything{Buffer::kSend, 0, static_cast<uint32_t>(ranks)};
  const uint32_t steps = std::countr_zero(static_cast<unsigned>(actors.count));
  if (paired && me % 2 == 1) {
    program.put(me - 1, everything, {Buffer::kScratch, 0, everything.count});
    program.begin_step(steps + 1);
    program.expect(me - 1, recv_slot(0));
    return program.finish();
  }
  const auto add_scratch = [&](Rank first, uint32_t count) {
    std::vector<Block> blocks;
    for (uint32_t i = 0; i < count; ++i)
      blocks.push_back({Block::kCombined, first + static_cast<Rank>(i)});
    return program.add_scratch(blocks);
  };
  // What has been combined so far, of which blocks from `base` on.
  Slice sum = everything;
  Rank base = 0;
  if (paired) {
    sum = add_scratch(0, everything.count);
    program.expect(me + 1, sum);
    program.reduce(sum, everything, {});
  }
  const int actor = paired ? me / 2 : me - actors.pairs;
  const auto part = [&](int first, int end) {
    return Slice{sum.buffer, sum.first + static_cast<uint32_t>(actors.first_rank(first) - base),
                 actors.slots(first, end)};
  };
  for (uint32_t step = 1; step <= steps; ++step) {
    const int half = actors.count >> step;
    const int other = actor ^ half;
    const int kept = actor / half * half, given = other / half * half;
    const bool last = half == 1;
    // Where the other one's half lands there: behind what has landed before.
    uint32_t before = other < actors.pairs ? everything.count : 0;
    for (int wide = actors.count / 2; wide > half; wide /= 2)
      before += actors.slots(other / wide * wide, other / wide * wide + wide);
    const Slice there = last && other >= actors.pairs
                            ? recv_slot(0)
                            : Slice{Buffer::kScratch, before, actors.slots(given, given + half)};
    program.begin_step(step);
    program.put(actors.first_rank(other), part(given, given + half), there);
    const Slice mine = part(kept, kept + half);
    const Slice landing =
        last && !paired ? recv_slot(0) : add_scratch(actors.first_rank(kept), mine.count);
    program.expect(actors.first_rank(other), landing);
    program.reduce(landing, mine, {});
    sum = landing;
    base = actors.first_rank(kept);
  }
  if (paired) {
    program.copy(recv_slot(0), {sum.buffer, sum.first, 1});
    program.begin_step(steps + 1);
    program.put(me + 1, {sum.buffer, sum.first + 1, 1}, recv_slot(0));
  } else if (steps == 0) {
    program.copy(recv_slot(0), send_slot(0));
  }
  return program.finish();
}

int largest_put(const Shape& shape) { return shape.ranks(); }

constexpr AlgorithmSpec kSpec{
    .name = "halving",
    .collectives = {Collective::kReduceScatter, Collective::kReduceScatterBlock},
    .summary = "log2 P exchanges of half of what is combined",
    .when = "short blocks",
    .source = "Thakur 2005, section 4.2",
    .relays = true,
    .largest_put = largest_put,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
