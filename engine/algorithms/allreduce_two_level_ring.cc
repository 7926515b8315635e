/// Two-level ring allreduce: each rank of a server combines a slice of the block straight from the
/// others' memory, as in two_level, and the ranks of different servers that have the same slice
/// form a ring (Patarasuk, Yuan 2009), so that all ranks, and the port of each, carry their part of
/// what goes between servers. A server sends to the next one only: on networks on which neighbours
/// have links of their own nothing is contended, whatever the pace of ranks.
///
/// Slot k Ns + s of the block, part s of slice k, goes from server s + 1 round to s, each server
/// adding its sum; then sums run on along the ring. What a server adds is made one step ahead. Each
/// step is a stream. For long blocks on several servers.
/// Steps: 2 Ns. Messages a rank: 2 (Ns - 1), a smaller server's ranks more. Bytes between servers:
/// 2 (Ns - 1) / Ns blocks out of a server, and in. Scratch: 2 slices about, 1 of a lone rank.

#include "engine/algorithms/exchange_plans.h"
#include "engine/algorithms/local_trade.h"
#include "engine/algorithms/server_slices.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

/// Where what lies at a rank: all ranks know it of each other. Parts of the block are numbered in
/// the order in which a server comes to them: `turn` 0 is what it sends first, servers - 1 its own.
class Places {
 public:
  Places(const Shape& shape, const ServerSlices& slices, Rank rank)
      : servers_(static_cast<uint32_t>(shape.servers())),
        server_(static_cast<uint32_t>(shape.server_of(rank))),
        alone_(shape.server_size(shape.server_of(rank)) == 1),
        first_(slices.first(shape.server_of(rank), shape.local_of(rank))),
        end_(slices.first(shape.server_of(rank), shape.local_of(rank) + 1)) {}

  uint32_t first() const { return first_; }
  uint32_t end() const { return end_; }
  uint32_t size() const { return end_ - first_; }
  /// A lone rank's data is its server's sum.
  bool alone() const { return alone_; }

  uint32_t slot(uint32_t slice, uint32_t turn) const {
    return slice * servers_ + (server_ + 2 * servers_ - 1 - turn) % servers_;
  }
  /// Where what comes in step `turn` of the ring lands; it is of turn + 1.
  Slice landing(uint32_t slice, uint32_t turn) const {
    return scratch(alone_ ? turn : servers_ - 1 + turn, slice);
  }
  /// Where the sum of the server is made, and that of the servers before is added.
  Slice sum(uint32_t slice, uint32_t turn) const {
    if (turn + 1 == servers_) return {Buffer::kRecv, slot(slice, turn), 1};
    if (!alone_) return scratch(turn, slice);
    return turn == 0 ? Slice{Buffer::kSend, slot(slice, 0), 1} : landing(slice, turn - 1);
  }
  /// What scratch slots hold.
  std::vector<Block> blocks() const {
    std::vector<Block> result;
    const auto add = [&](uint32_t turn) {
      for (uint32_t slice = first_; slice < end_; ++slice) {
        result.push_back(
            {Block::kCombined, Block::kFirstPart - static_cast<Rank>(slot(slice, turn))});
      }
    };
    for (uint32_t turn = 0; !alone_ && turn + 1 < servers_; ++turn) add(turn);
    for (uint32_t turn = 1; turn < servers_; ++turn) add(turn);
    return result;
  }

 private:
  Slice scratch(uint32_t row, uint32_t slice) const {
    return {Buffer::kScratch, row * (end_ - first_) + slice - first_, 1};
  }

  const uint32_t servers_, server_;
  const bool alone_;
  const uint32_t first_, end_;
};

class TwoLevelRing {
 public:
  TwoLevelRing(const Shape& shape, Rank me, const AlgorithmOptions& options)
      : program_(Collective::kAllreduce, "two_level_ring", shape, me, options),
        shape_(shape),
        slices_(shape),
        me_(me),
        server_(shape.server_of(me)),
        servers_(shape.servers()),
        mine_(shape, slices_, me) {
    program_.cut_block(slices_.count() * static_cast<uint32_t>(servers_));
    program_.add_scratch(mine_.blocks());
  }

  ProgramPtr build() {
    combine_inside(0);
    if (servers() > 1) combine_inside(1);
    for (uint32_t turn = 0; turn + 1 < servers(); ++turn) {
      program_.begin_step(turn + 1);
      if (turn + 2 < servers()) combine_inside(turn + 2);
      combine_between(turn);
    }
    for (uint32_t turn = 0; turn < servers(); ++turn) {
      program_.begin_step(servers() + turn);
      run_on(turn);
    }
    return program_.finish();
  }

 private:
  Places places(Rank rank) const { return {shape_, slices_, rank}; }
  template <class Visit>
  void for_each_slice(const Visit& visit) const {
    for (uint32_t slice = mine_.first(); slice < mine_.end(); ++slice) visit(slice);
  }
  /// Who has a slice on the servers beside this one.
  Rank before(uint32_t slice) const {
    return slices_.owner((server_ + servers_ - 1) % servers_, slice);
  }
  Rank behind(uint32_t slice) const { return slices_.owner((server_ + 1) % servers_, slice); }

  /// The sum of this server.
  void combine_inside(uint32_t turn) {
    if (mine_.alone() && turn + 1 < servers()) return;
    for_each_slice([&](uint32_t slice) {
      program_.copy(mine_.sum(slice, turn), {Buffer::kSend, mine_.slot(slice, turn), 1});
    });
    trade_locally(
        shape_, me_, [&](Rank to) { return places(to).size(); }, [&](Rank) { return mine_.size(); },
        [&](Rank to, size_t i) {
          const Places theirs = places(to);
          const auto slice = theirs.first() + static_cast<uint32_t>(i);
          program_.put(to, {Buffer::kSend, theirs.slot(slice, turn), 1}, theirs.sum(slice, turn));
        },
        [&](Rank from, size_t i) {
          const auto slice = mine_.first() + static_cast<uint32_t>(i);
          program_.expect_combined(from, mine_.sum(slice, turn), {});
        });
  }

  /// Passes on what this server and those before it have, and takes the next part. A stream has one
  /// put to a rank, since places are told in the order of operations.
  void combine_between(uint32_t turn) {
    for_each_slice([&](uint32_t slice) {
      program_.begin_stream();
      program_.put(behind(slice), mine_.sum(slice, turn),
                   places(behind(slice)).landing(slice, turn));
      const Slice landing = mine_.landing(slice, turn);
      program_.expect(before(slice), landing);
      if (mine_.alone() && turn + 2 < servers()) {
        program_.reduce(landing, {Buffer::kSend, mine_.slot(slice, turn + 1), 1}, {});
      } else {
        program_.reduce(mine_.sum(slice, turn + 1), landing, {});
      }
      program_.end_stream();
    });
  }

  /// Passes a part's sum on, hands it out inside the server, and takes the next one: the own part
  /// first, then in the order in which they were combined.
  void run_on(uint32_t turn) {
    const uint32_t part = (turn + servers() - 1) % servers();
    const auto slot = [&](const Places& at, uint32_t slice, uint32_t which) {
      return Slice{Buffer::kRecv, at.slot(slice, which), 1};
    };
    for_each_slice([&](uint32_t slice) {
      if (turn + 1 == servers()) return;
      program_.begin_stream();
      program_.put(behind(slice), slot(mine_, slice, part), slot(mine_, slice, part));
      program_.expect(before(slice), slot(mine_, slice, turn));
      program_.end_stream();
    });
    trade_locally(
        shape_, me_, [&](Rank) { return mine_.size(); },
        [&](Rank from) { return places(from).size(); },
        [&](Rank to, size_t i) {
          const auto slice = mine_.first() + static_cast<uint32_t>(i);
          program_.put(to, slot(mine_, slice, part), slot(mine_, slice, part));
        },
        [&](Rank from, size_t i) {
          const auto slice = places(from).first() + static_cast<uint32_t>(i);
          program_.expect(from, slot(mine_, slice, part));
        });
  }

  uint32_t servers() const { return static_cast<uint32_t>(servers_); }

  ProgramBuilder program_;
  const Shape& shape_;
  const ServerSlices slices_;
  const Rank me_;
  const int server_, servers_;
  const Places mine_;
};

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  return TwoLevelRing(shape, me, options).build();
}

constexpr AlgorithmSpec kSpec{
    .name = "two_level_ring",
    .collectives = {Collective::kAllreduce},
    .summary = "each rank of a server combines a slice, which runs along the servers",
    .when = "several servers; long blocks",
    .source = "Patarasuk, Yuan 2009; Bayatpour 2017",
    .relays = true,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
