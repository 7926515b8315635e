/// Recursive doubling allgather(v) (Thakur, Rabenseifner, Gropp 2005, section 4.1), for any number
/// of ranks: in step k ranks that differ in bit k exchange all they have. With 2^m + r ranks the
/// first 2r of them act in pairs: the odd one hands its block to the even one before and gets the
/// result after. Few messages: for short blocks. Steps: floor(log2 P), 2 more where P is no power
/// of two. Messages a rank: at most as many. Bytes: P - 1 blocks, up to 2.4 times that for the even
/// ones of pairs. Scratch: none; allgatherv, whose blocks need not lie side by side in the user's
/// buffer, collects them in P slots and copies.

#include <bit>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "recursive_doubling", shape, me, options);
  const int ranks = shape.ranks();
  const int actors = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  const int pairs = ranks - actors;
  const uint32_t steps = std::countr_zero(static_cast<unsigned>(actors));
  // Actor a is rank 2a if it acts for a pair, else rank a + pairs: actors in sequence hold blocks
  // that lie side by side.
  const auto rank_of = [&](int actor) { return actor < pairs ? 2 * actor : actor + pairs; };
  const Slice received{Buffer::kRecv, 0, static_cast<uint32_t>(ranks)};
  Slice everything = received;
  const bool collects = is_unequal(collective) && ranks > 1;
  if (collects) {
    std::vector<Block> blocks;
    for (Rank rank = 0; rank < ranks; ++rank) blocks.push_back({rank, Block::kEveryone});
    everything = program.add_scratch(blocks);
  }
  const auto part = [&](int first, int end) {
    return Slice{everything.buffer, static_cast<uint32_t>(first),
                 static_cast<uint32_t>(end - first)};
  };
  const auto finish = [&] {
    if (collects) program.copy(received, everything);
    return program.finish();
  };

  if (me < 2 * pairs && me % 2 == 1) {
    program.put(me - 1, send_slot(0), part(me, me + 1));
    program.begin_step(steps + 1);
    program.expect(me - 1, everything);
    return finish();
  }
  program.copy(part(me, me + 1), send_slot(0));
  if (me < 2 * pairs) program.expect(me + 1, part(me + 1, me + 2));
  const int actor = me < 2 * pairs ? me / 2 : me - pairs;
  for (uint32_t k = 0; k < steps; ++k) {
    const auto held_by = [&](int who) {  // what the 2^k actors around `who` have together
      const int first = who >> k << k;
      return part(rank_of(first), rank_of(first + (1 << k)));
    };
    const int other = actor ^ (1 << k);
    program.begin_step(k + 1);
    program.put(rank_of(other), held_by(actor), held_by(actor));
    program.expect(rank_of(other), held_by(other));
  }
  program.begin_step(steps + 1);
  if (me < 2 * pairs) program.put(me + 1, everything, everything);
  return finish();
}

int largest_put(const Shape& shape) { return shape.ranks(); }

constexpr AlgorithmSpec kSpec{
    .name = "recursive_doubling",
    .collectives = {Collective::kAllgather, Collective::kAllgatherv},
    .summary = "log2 P exchanges of all that is held",
    .when = "short blocks",
    .source = "Thakur 2005, section 4.1",
    .relays = true,
    .largest_put = largest_put,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
