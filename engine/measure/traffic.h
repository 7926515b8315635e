#pragma once
/// What one call of a collective moves: the bytes of each pair and where they lie. The benchmark
/// fills and checks buffers, and computes bandwidths, from this alone.

#include <cstdint>

#include "engine/schedule/program.h"
#include "engine/schedule/shape.h"

namespace ibcoll::measure {

/// Bytes and places for one collective with a nominal number of bytes a pair of ranks.
/// - alltoall: every pair the same.
/// - alltoallv: half, once and one and a half times as much, by (origin + target) mod 3, so that
///   the mean is the nominal number; blocks lie side by side.
/// - allgather: the origin has one block for everybody.
/// - barrier: nothing.
class Traffic {
 public:
  Traffic(Collective collective, int ranks, int64_t bytes_per_pair)
      : collective_(collective), ranks_(ranks), bytes_(bytes_per_pair) {}

  Collective collective() const { return collective_; }
  int ranks() const { return ranks_; }
  int64_t bytes_per_pair() const { return bytes_; }

  /// Bytes that `origin` has for `target`.
  int64_t bytes(Rank origin, Rank target) const;
  /// Where those lie in the send buffer of `origin`.
  int64_t send_offset(Rank origin, Rank target) const;
  /// Where they go to in the receive buffer of `target`.
  int64_t receive_offset(Rank target, Rank origin) const;
  /// Sizes of a rank's buffers.
  int64_t send_bytes(Rank rank) const;
  int64_t receive_bytes(Rank rank) const;

  /// What all ranks receive, their own blocks included.
  int64_t total_bytes() const;
  /// What the busiest server sends to other servers. The numerator of the all-to-all bandwidth:
  /// with equal servers Msg (Np - Nlp) Nlp (Naruse et al. 2010).
  int64_t busiest_server_out_bytes(const Shape& shape) const;
  /// What all ranks together read and write in one call: decides whether caches can hold it.
  int64_t footprint_bytes() const;

 private:
  /// Of `line` (an origin or target): bytes it shares with ranks 0..count-1 of the other side.
  int64_t prefix(Rank line, int count) const;

  Collective collective_;
  int ranks_;
  int64_t bytes_;
};

}  // namespace ibcoll::measure
