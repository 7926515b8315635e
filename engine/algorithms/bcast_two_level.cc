/// Two-level broadcast: the chain of servers (bcast_chain.cc) with all ranks of a server at work.
/// The block is cut into slices, and each rank receives and sends on those that are its own, piece
/// by piece; what it has the others of its server read from it. So ports of ranks are used at once,
/// and a rank copies what it has not received itself. Of the root's server the ranks read their
/// slices first, then the rest. Servers with fewer than half as many ranks come behind the others,
/// which they would hold up. Steps: Ns. Messages and bytes: a slice a rank, together 1 block a
/// server; a smaller server's ranks more. Scratch: none.

#include <algorithm>
#include <vector>

#include "engine/algorithms/bcast_cost.h"
#include "engine/algorithms/local_trade.h"
#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_slices.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

class TwoLevel {
 public:
  TwoLevel(const Shape& shape, Rank me, const AlgorithmOptions& options)
      : program_(Collective::kBcast, "two_level", shape, me, options),
        shape_(shape),
        slices_(shape),
        me_(me),
        root_(options.root),
        server_(shape.server_of(me)),
        mine_(slices_.of(me)) {
    program_.cut_block(slices_.count());
    line_up();
  }

  ProgramPtr build() {
    if (place_ == 0) {
      start();
    } else {
      pass_on();
    }
    return program_.finish();
  }

 private:
  using Range = ServerSlices::Range;

  /// From the root's server on, the smaller ones last.
  void line_up() {
    const int servers = shape_.servers();
    for (int i = 0; i < servers; ++i) line_.push_back((shape_.server_of(root_) + i) % servers);
    std::stable_partition(line_.begin() + 1, line_.end(), [&](int server) {
      return 2 * shape_.server_size(server) >= shape_.max_server_size();
    });
    place_ = static_cast<size_t>(std::find(line_.begin(), line_.end(), server_) - line_.begin());
  }
  uint32_t last_step() const { return static_cast<uint32_t>(line_.size()) - 1; }
  static Slice received(uint32_t slice) { return {Buffer::kRecv, slice, 1}; }
  Slice source(uint32_t first, uint32_t count) const {
    return {me_ == root_ ? Buffer::kSend : Buffer::kRecv, first, count};
  }

  /// To the next server.
  void send_on() {
    if (place_ + 1 == line_.size()) return;
    program_.begin_step(static_cast<uint32_t>(place_));
    for (uint32_t slice = mine_.first; slice < mine_.end; ++slice) {
      program_.put(slices_.owner(line_[place_ + 1], slice), source(slice, 1), received(slice));
    }
  }

  /// On the root's server.
  void start() {
    const auto members = shape_.members(server_);
    const auto for_each_other = [&](const auto& visit) {
      for (const Rank rank : members) {
        if (rank != root_ && (me_ == root_ || me_ == rank)) visit(rank, slices_.of(rank));
      }
    };
    const auto hand = [&](Rank rank, uint32_t first, uint32_t end) {
      const Slice slots{Buffer::kRecv, first, end - first};
      if (first == end) return;
      if (me_ == root_) {
        program_.put(rank, source(first, end - first), slots);
      } else {
        program_.expect(root_, slots);
      }
    };
    program_.begin_strands();
    for_each_other([&](Rank rank, Range own) {
      for (uint32_t slice = own.first; slice < own.end; ++slice) hand(rank, slice, slice + 1);
    });
    send_on();
    program_.end_stream();
    program_.begin_step(last_step());
    for_each_other([&](Rank rank, Range own) {
      hand(rank, 0, own.first);
      hand(rank, own.end, slices_.count());
    });
  }

  void pass_on() {
    program_.begin_strands();
    program_.begin_step(static_cast<uint32_t>(place_ - 1));
    for (uint32_t slice = mine_.first; slice < mine_.end; ++slice) {
      program_.expect(slices_.owner(line_[place_ - 1], slice), received(slice));
    }
    send_on();
    program_.begin_step(last_step());
    trade_locally(
        shape_, me_, [&](Rank) { return mine_.count(); },
        [&](Rank from) { return slices_.of(from).count(); },
        [&](Rank to, size_t i) {
          const Slice slice = received(mine_.first + static_cast<uint32_t>(i));
          program_.put(to, slice, slice);
        },
        [&](Rank from, size_t i) {
          program_.expect(from, received(slices_.of(from).first + static_cast<uint32_t>(i)));
        });
    program_.end_stream();
  }

  ProgramBuilder program_;
  const Shape& shape_;
  const ServerSlices slices_;
  const Rank me_, root_;
  const int server_;
  const Range mine_;
  std::vector<int> line_;  ///< servers in the order in which the block comes to them
  size_t place_ = 0;       ///< of this rank's server
};

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  return TwoLevel(shape, me, options).build();
}

/// On one port a server what a chain takes, on a port a rank as much less as there are ranks. Of
/// two servers a tree is a chain.
int64_t cost(const Shape& shape, int64_t bytes) {
  return shape.servers() == 2 ? tree_cost(shape, bytes) : chain_cost(shape, bytes);
}

constexpr AlgorithmSpec kSpec{
    .name = "two_level",
    .collectives = {Collective::kBcast},
    .summary = "slices go from server to server through all ranks of each, piece by piece",
    .when = "several servers of several ranks; long blocks",
    .source = "here",
    .relays = true,
    .beyond_leaders = true,
    .cost = cost,
    .pieces = slice_pieces,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
