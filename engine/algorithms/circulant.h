#pragma once
/// Broadcast schedules on a circulant graph (Träff, "Round-optimal n-block broadcast schedules in
/// logarithmic time", arXiv:2312.11236): n blocks reach p places in n - 1 + ceil(log2 p) rounds, in
/// each of which a place sends one block and receives one.

#include <cstdint>
#include <optional>
#include <vector>

namespace ibcoll {

/// The graph: in round i, place v sends to v + skip(i mod q) and receives from v - skip(i mod q),
/// modulo p, where q = ceil(log2 p), skip(q) = p and skip(k) = ceil(skip(k + 1) / 2).
class CirculantGraph {
 public:
  /// `places`: p, at least 1.
  explicit CirculantGraph(int places);

  int places() const { return skip_.back(); }
  /// q: the neighbours that a place sends to.
  int degree() const { return static_cast<int>(skip_.size()) - 1; }
  int skip(int k) const { return skip_[k]; }

  /// By k = 0 .. q - 1: which block a place other than the root, 0, receives in the rounds i = k
  /// modulo q: in the first q rounds of an endless broadcast the block of that number, where it is
  /// not negative, and q further in each q rounds that follow. The numbers are -q .. -1 but one,
  /// and that one plus q: each block comes exactly once. Time O(log p).
  std::vector<int> received(int place) const;

 private:
  std::vector<int> skip_;  ///< k = 0 .. q
};

/// What one place receives in a broadcast of `blocks` blocks, in rounds 0 .. n - 2 + q. Time and
/// memory O(log p).
class CirculantReceipts {
 public:
  CirculantReceipts(const CirculantGraph& graph, int place, uint32_t blocks);

  /// Which skip is at work in a round, the same at all places.
  int neighbour(uint32_t round) const { return static_cast<int>((before_ + round) % degree_); }
  /// The block that comes in a round, if one does. The root receives none.
  std::optional<uint32_t> block(uint32_t round) const;

 private:
  int64_t number(uint64_t round) const;

  uint32_t blocks_;
  uint64_t degree_;
  /// Rounds in which nobody would receive anything come first and are left out, so that the last
  /// one is the last of its q.
  uint64_t before_ = 0;
  std::vector<int> first_;      ///< by skip; of the root empty
  uint64_t last_ = UINT64_MAX;  ///< the round, `before_` included, in which the last block comes
};

}  // namespace ibcoll
