/// Rabenseifner's allreduce (Rabenseifner 2004; Thakur, Rabenseifner, Gropp 2005, section 4.5), for
/// any number of ranks: recursive halving of the block, with partners twice as far away in each
/// step, and doubling the same way back. With 2^m + r ranks the first 2r act in pairs: the odd one
/// hands its block to the even one before and gets the result after. The block is cut into 2^m
/// slots. What a rank has combined is of ranks in sequence, so where P is a power of two all is
/// combined by the tree of rank_order.h. For middle blocks. Steps: 2 floor(log2 P), 2 more where P
/// is no power of two. Messages a rank: at most as many. Bytes: 2 (1 - 1 / 2^m) blocks, 2 more in
/// pairs. Scratch: a block less one slot, 1 block more in pairs.

#include <bit>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

class Rabenseifner {
 public:
  Rabenseifner(const Shape& shape, Rank me, const AlgorithmOptions& options)
      : program_(Collective::kAllreduce, "rabenseifner", shape, me, options),
        me_(me),
        ordered_(options.ordered),
        actors_(static_cast<int>(std::bit_floor(static_cast<unsigned>(shape.ranks())))),
        pairs_(shape.ranks() - actors_),
        steps_(std::countr_zero(static_cast<unsigned>(actors_))),
        paired_(me < 2 * pairs_),
        actor_(paired_ ? me / 2 : me - pairs_) {
    program_.cut_block(static_cast<uint32_t>(actors_));
  }

  ProgramPtr build() {
    const Slice sent = all(Buffer::kSend), received = all(Buffer::kRecv);
    if (paired_ && me_ % 2 == 1) {
      program_.put(me_ - 1, sent, all(Buffer::kScratch));
      program_.begin_step(2 * steps_ + 1);
      program_.expect(me_ - 1, received);
      return program_.finish();
    }
    Slice sum = sent;
    if (paired_) {
      sum = add_scratch(0, sent.count);
      program_.expect(me_ + 1, sum);
      program_.reduce(sum, sent, {.ordered = ordered_, .before = true});
    }
    halve(sum);
    if (steps_ == 0) program_.copy(received, sum);
    // The way back.
    for (uint32_t k = steps_; k-- > 0;) {
      const int other = actor_ ^ 1 << k;
      program_.begin_step(2 * steps_ - k);
      program_.put(rank_of(other), received_of(actor_, k + 1), received_of(actor_, k + 1));
      program_.expect(rank_of(other), received_of(other, k + 1));
    }
    if (paired_) {
      program_.begin_step(2 * steps_ + 1);
      program_.put(me_ + 1, received, received);
    }
    return program_.finish();
  }

 private:
  /// Slots that an actor still combines after so many steps: `count` from `first` on.
  struct Range {
    uint32_t first, count;
  };
  Range range(int actor, uint32_t steps) const {
    Range range{0, static_cast<uint32_t>(actors_)};
    for (uint32_t k = 0; k < steps; ++k) {
      range.count /= 2;
      if ((actor >> k & 1) != 0) range.first += range.count;
    }
    return range;
  }
  Slice all(Buffer buffer) const { return {buffer, 0, static_cast<uint32_t>(actors_)}; }
  Slice received_of(int actor, uint32_t steps) const {
    const Range slots = range(actor, steps);
    return {Buffer::kRecv, slots.first, slots.count};
  }
  Rank rank_of(int actor) const { return actor < pairs_ ? 2 * actor : actor + pairs_; }
  Slice add_scratch(uint32_t first, uint32_t count) {
    std::vector<Block> blocks;
    for (uint32_t i = 0; i < count; ++i)
      blocks.push_back({Block::kCombined, Block::kFirstPart - static_cast<Rank>(first + i)});
    return program_.add_scratch(blocks);
  }
  /// Where an actor's part lands in step k: the last one where the result goes.
  Slice landing(int actor, uint32_t k) const {
    if (k + 1 == steps_) return received_of(actor, steps_);
    uint32_t before = actor < pairs_ ? static_cast<uint32_t>(actors_) : 0;
    for (uint32_t earlier = 0; earlier < k; ++earlier) before += range(actor, earlier + 1).count;
    return {Buffer::kScratch, before, range(actor, k + 1).count};
  }

  void halve(Slice& sum) {
    uint32_t base = 0;  // the slot that `sum` begins with
    for (uint32_t k = 0; k < steps_; ++k) {
      const int other = actor_ ^ 1 << k;
      const Range kept = range(actor_, k + 1), given = range(other, k + 1);
      program_.begin_step(k + 1);
      program_.put(rank_of(other), {sum.buffer, sum.first + given.first - base, given.count},
                   landing(other, k));
      if (k + 1 < steps_) add_scratch(kept.first, kept.count);
      const Slice place = landing(actor_, k);
      program_.expect(rank_of(other), place);
      program_.reduce(place, {sum.buffer, sum.first + kept.first - base, kept.count},
                      {.ordered = ordered_, .before = actor_ < other});
      sum = place;
      base = kept.first;
    }
  }

  ProgramBuilder program_;
  const Rank me_;
  const bool ordered_;
  const int actors_, pairs_;
  const uint32_t steps_;
  const bool paired_;
  const int actor_;
};

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  return Rabenseifner(shape, me, options).build();
}

bool keeps_order(const Shape& shape) {
  return std::has_single_bit(static_cast<unsigned>(shape.ranks()));
}

constexpr AlgorithmSpec kSpec{
    .name = "rabenseifner",
    .collectives = {Collective::kAllreduce},
    .summary = "recursive halving, and doubling the way back",
    .when = "middle blocks",
    .source = "Rabenseifner 2004",
    .relays = true,
    .keeps_order = keeps_order,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
