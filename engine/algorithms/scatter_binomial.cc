/// Binomial scatter(v) over the servers (after MPICH's; Thakur, Rabenseifner, Gropp 2005): the root
/// sends what a half of the servers gets as one message to local rank 0 of its first server, that
/// sends half of it on, and so forth; inside its server it hands the blocks out by shared memory.
/// For small blocks. Steps: 1 + ceil(log2 Ns). Messages: ceil(log2 Ns) of the root. Bytes: a block
/// travels as many times as its server has bits set, counted from the root's. Scratch: the blocks
/// of the subtree; at the root those that do not lie side by side.

#include "engine/algorithms/rank_runs.h"
#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_tree.h"
#include "engine/algorithms/slots.h"

namespace ibcoll {

namespace {

class Scatter : AlongServerTree {
 public:
  Scatter(Collective collective, const Shape& shape, Rank me, const AlgorithmOptions& options)
      : AlongServerTree(collective, shape, me, options) {}

  ProgramPtr build() {
    const int place = line_.place_of(shape_.server_of(me_));
    const Rank leader = line_.leader(place);
    const uint32_t levels = tree_.levels();
    if (me_ != leader) {
      program_.begin_step(levels);
      program_.expect(leader, recv_slot(0));
      return program_.finish();
    }
    if (place != 0) {
      program_.begin_step(levels - 1 - tree_.level(place));
      if (!direct(place)) add_scratch(ranks_below(place));
      program_.expect(line_.leader(tree_.parent(place)), landing(place));
    }
    const auto children = tree_.children(place);
    for (auto child = children.rbegin(); child != children.rend(); ++child) {
      program_.begin_step(levels - 1 - tree_.level(*child));
      program_.put(line_.leader(*child), message(place, *child), landing(*child));
    }
    program_.begin_step(levels);
    program_.begin_relaxed();
    for (const Rank local : line_.ranks(place, place + 1)) {
      if (local != me_) program_.put(local, block_of_local(place, local), recv_slot(0));
    }
    if (place == 0 || !direct(place)) program_.copy(recv_slot(0), block_of_local(place, me_));
    program_.end_relaxed();
    return program_.finish();
  }

 private:
  Slice add_scratch(const std::vector<Rank>& ranks) {
    std::vector<Block> blocks;
    for (const Rank rank : ranks) blocks.push_back({root_, rank});
    return program_.add_scratch(blocks);
  }

  Slice block_of_local(int place, Rank rank) const {
    if (place == 0) return send_slot(rank);
    return {Buffer::kScratch, static_cast<uint32_t>(shape_.local_of(rank)), 1};
  }

  /// Where what is for the subtree of `place` lands at its leader.
  Slice landing(int place) const {
    if (direct(place)) return recv_slot(0);
    return {Buffer::kScratch, 0, static_cast<uint32_t>(ranks_below(place).size())};
  }

  /// What the leader of `place` has for the subtree of `child`, in one piece.
  Slice message(int place, int child) {
    const auto ranks = ranks_below(child);
    const auto count = static_cast<uint32_t>(ranks.size());
    if (place != 0) {
      const auto before = static_cast<uint32_t>(line_.ranks(place, child).size());
      return {Buffer::kScratch, before, count};
    }
    if (count == 1 || (one_size_ && side_by_side(ranks))) {
      return {Buffer::kSend, static_cast<uint32_t>(ranks.front()), count};
    }
    const Slice packed = add_scratch(ranks);
    for_each_run(ranks, [&](uint32_t at, uint32_t rank, uint32_t run) {
      program_.copy({Buffer::kScratch, packed.first + at, run}, {Buffer::kSend, rank, run});
    });
    return packed;
  }
};

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  return Scatter(collective, shape, me, options).build();
}

constexpr AlgorithmSpec kSpec{
    .name = "binomial",
    .collectives = {Collective::kScatter, Collective::kScatterv},
    .summary = "the blocks of half the servers as one message, then halves of it",
    .when = "small blocks",
    .source = "MPICH; Thakur 2005",
    .relays = true,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
