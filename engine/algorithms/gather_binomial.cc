/// Binomial gather(v) over the servers (after MPICH's; Thakur, Rabenseifner, Gropp 2005): local
/// rank 0 of each server gathers its server's blocks through shared memory and those of the servers
/// below it in the tree from the network, and sends them on as one message. For small blocks.
/// Steps: 1 + ceil(log2 Ns). Messages: 1 of each rank, ceil(log2 Ns) into the root. Bytes: a block
/// travels as many times as its server has bits set, counted from the root's. Scratch: the blocks
/// of the subtree; at the root those that do not land in place.

#include "engine/algorithms/rank_runs.h"
#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_tree.h"
#include "engine/algorithms/slots.h"

namespace ibcoll {

namespace {

class Gather : AlongServerTree {
 public:
  Gather(Collective collective, const Shape& shape, Rank me, const AlgorithmOptions& options)
      : AlongServerTree(collective, shape, me, options) {}

  ProgramPtr build() {
    const int place = line_.place_of(shape_.server_of(me_));
    const Rank leader = line_.leader(place);
    if (me_ != leader) {
      program_.put(leader, send_slot(0), place_of_local(place, me_));
      return program_.finish();
    }
    if (place != 0 && !direct(place)) add_scratch(ranks_below(place));
    program_.begin_relaxed();
    for (const Rank local : line_.ranks(place, place + 1)) {
      if (local != me_) program_.expect(local, place_of_local(place, local));
    }
    if (place == 0 || !direct(place)) program_.copy(place_of_local(place, me_), send_slot(0));
    program_.end_relaxed();
    for (const int child : tree_.children(place)) {
      program_.begin_step(1 + tree_.level(child));
      if (place == 0 && !lands(child)) add_scratch(ranks_below(child));
      program_.expect(line_.leader(child), landing(child));
    }
    if (place != 0) {
      program_.begin_step(1 + tree_.level(place));
      const auto count = static_cast<uint32_t>(ranks_below(place).size());
      program_.put(line_.leader(tree_.parent(place)),
                   direct(place) ? send_slot(0) : Slice{Buffer::kScratch, 0, count},
                   landing(place));
      return program_.finish();
    }
    for (const int child : tree_.children(0)) {
      if (!lands(child)) unpack(child);
    }
    return program_.finish();
  }

 private:
  /// What comes from below place v, a child of the root, lands in its final place.
  bool lands(int place) const {
    const auto ranks = ranks_below(place);
    return ranks.size() == 1 || (one_size_ && side_by_side(ranks));
  }

  void add_scratch(const std::vector<Rank>& ranks) {
    std::vector<Block> blocks;
    for (const Rank rank : ranks) blocks.push_back({rank, root_});
    program_.add_scratch(blocks);
  }

  /// Where a rank's block goes at the leader of its server.
  Slice place_of_local(int place, Rank rank) const {
    if (place == 0) return recv_slot(rank);
    return {Buffer::kScratch, static_cast<uint32_t>(shape_.local_of(rank)), 1};
  }

  /// Where what comes from below `child` lands at the leader above.
  Slice landing(int child) const {
    const int parent = tree_.parent(child);
    const auto ranks = ranks_below(child);
    const auto count = static_cast<uint32_t>(ranks.size());
    if (parent != 0) {
      const auto before = static_cast<uint32_t>(line_.ranks(parent, child).size());
      return {Buffer::kScratch, before, count};
    }
    if (lands(child)) return {Buffer::kRecv, static_cast<uint32_t>(ranks.front()), count};
    uint32_t before = 0;  // the root takes scratch child by child
    for (const int other : tree_.children(0)) {
      if (other < child && !lands(other))
        before += static_cast<uint32_t>(ranks_below(other).size());
    }
    return {Buffer::kScratch, before, count};
  }

  void unpack(int child) {
    const uint32_t packed = landing(child).first;
    for_each_run(ranks_below(child), [&](uint32_t at, uint32_t rank, uint32_t count) {
      program_.copy({Buffer::kRecv, rank, count}, {Buffer::kScratch, packed + at, count});
    });
  }
};

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  return Gather(collective, shape, me, options).build();
}

constexpr AlgorithmSpec kSpec{
    .name = "binomial",
    .collectives = {Collective::kGather, Collective::kGatherv},
    .summary = "a server's blocks as one message, along a binomial tree",
    .when = "small blocks",
    .source = "MPICH; Thakur 2005",
    .relays = true,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
