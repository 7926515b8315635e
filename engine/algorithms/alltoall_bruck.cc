/// Bruck alltoall(v) (Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 1997, fig. 3), for any number
/// of ranks: in step k every rank sends to the rank 2^k after it all blocks it holds whose way
/// still to go, in ranks, has bit k set; a block makes one hop for each bit. Few messages, each
/// block moved several times: for small blocks.
/// Steps and messages a rank: ceil(log2 P). Bytes: about P/2 blocks a step. Scratch: about P/2
/// slots a step to send and P/2 to receive. Local copies: 2 P or less, since a block is only ever
/// gathered with its neighbours.
///
/// A message is in descending order of way: what is still to be gathered lies in runs, and what has
/// arrived runs up the receive buffer.

#include <algorithm>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {

namespace {

class Bruck {
 public:
  Bruck(Collective collective, const Shape& shape, Rank me, const AlgorithmOptions& options)
      : program_(collective, "bruck", shape, me, options), ranks_(shape.ranks()), me_(me) {}

  ProgramPtr build() {
    program_.copy(recv_slot(me_), send_slot(me_));
    for (int k = 0; 1 << k < ranks_; ++k) {
      program_.begin_step(k);
      const Rank to = (me_ + (1 << k)) % ranks_, from = (me_ - (1 << k) + ranks_) % ranks_;
      const Slice message = gather(k);
      const Slice landing = add_message(k, from);  // has the same place in every rank's scratch
      program_.put(to, message, landing);
      program_.expect(from, landing);
      received_.push_back(landing);
    }
    for (int k = 0; 1 << k < ranks_; ++k) unpack(k);
    return program_.finish();
  }

 private:
  /// How many ways below `end` have bit k set: the message of step k up to there.
  static int ways(int k, int end) {
    return (end >> (k + 1) << k) + std::max(0, (end & ((2 << k) - 1)) - (1 << k));
  }

  /// The blocks of way `first` .. `end` - 1 among those that came in step k.
  Slice part_received(int k, int first, int end) const {
    const auto before = static_cast<uint32_t>(ways(k, ranks_) - ways(k, end));
    return {Buffer::kScratch, received_[k].first + before, static_cast<uint32_t>(end - first)};
  }

  /// Scratch for the message of step k that rank `holder` sends.
  Slice add_message(int k, Rank holder) {
    blocks_.clear();
    for (int way = ranks_ - 1; way > 0; --way) {
      if ((way >> k & 1) == 0) continue;
      const Rank origin = (holder - (way & ((1 << k) - 1)) + ranks_) % ranks_;
      blocks_.push_back({origin, (origin + way) % ranks_});
    }
    return program_.add_scratch(blocks_);
  }

  /// The message of step k, gathered from where its blocks lie: those whose way has no lower bit
  /// in the send buffer, the others where they arrived in the step of their highest lower bit.
  Slice gather(int k) {
    pieces_.clear();
    for (int base = (ranks_ - 1) >> k << k; base > 0; base -= 1 << k) {
      if ((base >> k & 1) == 0) continue;
      for (int h = k - 1; h >= 0; --h) {
        const int first = base + (1 << h), end = std::min(base + (2 << h), ranks_);
        if (first < end) pieces_.push_back(part_received(h, first, end));
      }
      pieces_.push_back(send_slot((me_ + base) % ranks_));
    }
    if (pieces_.size() == 1) return pieces_.front();
    Slice message = add_message(k, me_);
    uint32_t at = message.first;
    for (const Slice& piece : pieces_) {
      program_.copy({Buffer::kScratch, at, piece.count}, piece);
      at += piece.count;
    }
    return message;
  }

  /// Blocks that arrived in step k with no way left, at most two runs of the receive buffer.
  void unpack(int k) {
    for (int end = std::min(2 << k, ranks_); end > 1 << k;) {
      const int last = (me_ - end + 1 + ranks_) % ranks_;  // slot of the longest way left
      const int count = std::min(end - (1 << k), ranks_ - last);
      program_.copy({Buffer::kRecv, static_cast<uint32_t>(last), static_cast<uint32_t>(count)},
                    part_received(k, end - count, end));
      end -= count;
    }
  }

  ProgramBuilder program_;
  const int ranks_;
  const Rank me_;
  std::vector<Slice> received_;  ///< by step
  std::vector<Slice> pieces_;
  std::vector<Block> blocks_;
};

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  return Bruck(collective, shape, me, options).build();
}

int largest_put(const Shape& shape) { return (shape.ranks() + 1) / 2; }

constexpr AlgorithmSpec kSpec{
    .name = "bruck",
    .collectives = {Collective::kAlltoall, Collective::kAlltoallv, Collective::kAlltoallw},
    .summary = "log2 P messages, blocks hop bit by bit",
    .when = "small blocks on many servers",
    .source = "Bruck 1997, fig. 3",
    .relays = true,
    .largest_put = largest_put,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
