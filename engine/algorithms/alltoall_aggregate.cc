/// SA, send-side aggregation alltoall(v) (Kumar, Mamidala, Panda, IPDPS 2008), for servers with any
/// numbers of ranks: the blocks of a server for one remote rank travel as one message. First one
/// local rank gathers them through shared memory, then it walks the servers as a ring; each message
/// leaves as soon as its own blocks are together. The message of server s for (t, b) is sent by
/// local rank off(s,t) + (b - off(t,s) mod n_t) mod n_s, where off(s,t), the number of ranks before
/// server t modulo n_s (0 if n_s = n_t), spreads the messages evenly over ranks. It lands in
/// its final place where the sending server's blocks lie side by side there (consecutive ranks,
/// blocks of one size), else in scratch.
/// Steps: Ns + 1. Messages a rank: Ns - 1 between servers (servers of n_s ranks send P - n_s
/// messages in all), n_s times larger than a block. Bytes: P - n blocks between servers and,
/// inside, Ns times those of 2-Level Ring. Scratch: P - n slots to send, up to P - n to receive.

#include <vector>

#include "engine/algorithms/rank_runs.h"
#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_walk.h"
#include "engine/algorithms/slots.h"

namespace ibcoll {

namespace {

/// Who sends what between two servers, in both directions. Message c = 0 .. n_t - 1 from s to t
/// goes from local rank sender(c) to local rank receiver(c).
class Spread {
 public:
  Spread(const Shape& shape, int s, int ranks_before_s, int t, int ranks_before_t)
      : n_s_(shape.server_size(s)), n_t_(shape.server_size(t)) {
    // Servers as large as s, and s itself, add nothing modulo n_s: all ranks before t may be
    // counted.
    if (n_s_ != n_t_) off_s_ = ranks_before_t % n_s_, off_t_ = ranks_before_s % n_t_;
  }
  int sender(int c) const { return (off_s_ + c) % n_s_; }
  int receiver(int c) const { return (c + off_t_) % n_t_; }
  /// The first message a local rank of s sends; it sends every n_s-th from there.
  int first_of_sender(int a) const { return (a - off_s_ + n_s_) % n_s_; }
  /// The message a local rank of t receives.
  int of_receiver(int b) const { return (b - off_t_ + n_t_) % n_t_; }

 private:
  int n_s_, n_t_, off_s_ = 0, off_t_ = 0;
};

class Aggregate {
 public:
  Aggregate(Collective collective, const Shape& shape, Rank me, const AlgorithmOptions& options)
      : program_(collective, "aggregate", shape, me, options),
        shape_(shape),
        one_size_(!is_unequal(collective)),
        mine_(shape.server_of(me)),
        local_(shape.local_of(me)),
        size_(shape.server_size(mine_)),
        sent_(size_) {
    for (int t = 0; t < shape.servers(); ++t) {
      ranks_before_.push_back(ranks_before_.back() + shape.server_size(t));
      scratch_before_.push_back(scratch_before_.back() + (unpacks(t) ? shape.server_size(t) : 0));
    }
  }

  ProgramPtr build(const AlgorithmOptions& options) {
    const int servers = shape_.servers();
    for (int f = 0; f < servers; ++f) {
      if (f != mine_ && unpacks(f)) add_message(f, program_.me());
    }
    ServerWalk walk(program_, options);
    for (int j = 1; j < servers; ++j) {
      walk.enter(j, j);
      send_to(walk.to(j));
      const int from = walk.from(j);
      const Spread spread = spread_of(from, mine_);
      program_.expect(shape_.rank_at(from, spread.sender(spread.of_receiver(local_))),
                      landing(from, mine_));
    }
    // All gathering comes first: the network waits for it.
    program_.begin_step(servers);
    program_.set_window(0);
    exchange_inside_server(program_);
    for (int j = 1; j < servers; ++j) {
      if (unpacks(walk.from(j))) unpack(walk.from(j));
    }
    walk.leave();
    return program_.finish();
  }

 private:
  Spread spread_of(int s, int t) const {
    return Spread(shape_, s, ranks_before_[s], t, ranks_before_[t]);
  }

  bool unpacks(int from) const {
    return shape_.server_size(from) > 1 && !(one_size_ && shape_.consecutive(from));
  }

  /// Where the message of server `from` lands at the ranks of server `to`. Scratch begins with
  /// these, by server; the messages to send follow.
  Slice landing(int from, int to) const {
    const auto count = static_cast<uint32_t>(shape_.server_size(from));
    if (!unpacks(from)) {
      return {Buffer::kRecv, static_cast<uint32_t>(shape_.rank_at(from, 0)), count};
    }
    const uint32_t own = to < from && unpacks(to) ? shape_.server_size(to) : 0;
    return {Buffer::kScratch, scratch_before_[from] - own, count};
  }

  Slice add_message(int from, Rank target) {
    blocks_.clear();
    for (const Rank origin : shape_.members(from)) blocks_.push_back({origin, target});
    return program_.add_scratch(blocks_);
  }

  /// Offers the local peers the blocks of their messages to server `t`, gathers those of its own
  /// and puts them. A rank has more than one where t has more ranks.
  void send_to(int t) {
    const Spread spread = spread_of(mine_, t);
    const int n_t = shape_.server_size(t);
    const uint32_t first = scratch_before_.back() - (unpacks(mine_) ? size_ : 0);
    for (int round = 0; round * size_ < n_t; ++round) {
      program_.begin_relaxed();
      for (int k = 1; k < size_; ++k) {
        const int peer = (local_ + k) % size_;
        const int c = spread.first_of_sender(peer) + round * size_;
        if (c >= n_t) continue;
        program_.put(shape_.rank_at(mine_, peer), send_slot(shape_.rank_at(t, spread.receiver(c))),
                     {Buffer::kScratch, first + sent_[peer]++ * size_ + local_, 1});
      }
      const int c = spread.first_of_sender(local_) + round * size_;
      if (c < n_t) {
        const Rank target = shape_.rank_at(t, spread.receiver(c));
        program_.put(target, gather(target), landing(mine_, t));
      }
      program_.end_relaxed();
    }
  }

  Slice gather(Rank target) {
    if (size_ == 1) return send_slot(target);
    const Slice message = add_message(mine_, target);
    const auto slot = [&](uint32_t local) {
      return Slice{Buffer::kScratch, message.first + local, 1};
    };
    program_.copy(slot(local_), send_slot(target));
    for (int k = 1; k < size_; ++k) {
      const int peer = (local_ + k) % size_;
      program_.expect(shape_.rank_at(mine_, peer), slot(peer));
    }
    return message;
  }

  void unpack(int from) {
    const uint32_t packed = landing(from, mine_).first;
    for_each_run(shape_.members(from), [&](uint32_t at, uint32_t rank, uint32_t count) {
      program_.copy({Buffer::kRecv, rank, count}, {Buffer::kScratch, packed + at, count});
    });
  }

  ProgramBuilder program_;
  const Shape& shape_;
  const bool one_size_;  ///< blocks that follow each other in rank order lie side by side
  const int mine_, local_, size_;
  std::vector<uint32_t> sent_;  ///< messages gathered so far by each local rank
  std::vector<int> ranks_before_{0};
  std::vector<uint32_t> scratch_before_{0};  ///< slots that messages of the servers before land in
  std::vector<Block> blocks_;
};

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  return Aggregate(collective, shape, me, options).build(options);
}

int largest_put(const Shape& shape) { return shape.max_server_size(); }

constexpr AlgorithmSpec kSpec{
    .name = "aggregate",
    .collectives = {Collective::kAlltoall, Collective::kAlltoallv, Collective::kAlltoallw},
    .summary = "SA: blocks of a server for one rank as one message",
    .when = "medium blocks",
    .source = "Kumar 2008",
    .paced = true,
    .relays = true,
    .largest_put = largest_put,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
