#pragma once
/// What one call of a collective moves: the bytes of each pair and where they lie. The benchmark
/// fills and checks buffers, and computes bandwidths, from this alone.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/schedule/program.h"
#include "engine/schedule/shape.h"

namespace ibcoll::measure {

/// Blocks of a collective have multiples of so many bytes: reductions are of doubles.
int64_t element_bytes(Collective collective);

/// Bytes and places for one collective with a nominal number of bytes a pair of ranks.
/// - alltoall: every pair the same.
/// - alltoallv, gatherv, scatterv: half, once and one and a half times as much, by the sum of
///   origin and target mod 3, so that the mean of an alltoallv is the nominal number; blocks lie
///   side by side. allgatherv: the same by origin mod 3.
/// - alltoallw: as many bytes as in an alltoallv, in runs with gaps between them (BenchBuffers).
/// - allgather(v): the origin has one block for everybody.
/// - gather(v): only the root receives; scatter(v): only the root sends.
/// - bcast: the root has one block for everybody but itself.
/// - reduce: every rank has one block, and the root receives one in which all are combined: what
///   all have for it lies in one place.
/// - allreduce, scan, exscan: every rank has one block, and receives one in which those of all
///   ranks, or of those up to it, are combined.
/// - reduce_scatter(_block): every rank has one for each, and receives one, combined; they differ
///   in length as those of an allgatherv, in whole doubles.
/// - neighbor_alltoall(v), neighbor_allgather(v): the same as without a graph, an edge for a pair;
///   slots lie side by side.
/// - barrier: nothing.
class Traffic {
 public:
  Traffic(Collective collective, int ranks, int64_t bytes_per_pair, Rank root = 0,
          std::shared_ptr<const Graph> graph = nullptr)
      : collective_(collective),
        ranks_(ranks),
        bytes_(bytes_per_pair),
        root_(root),
        graph_(std::move(graph)) {}

  Collective collective() const { return collective_; }
  int ranks() const { return ranks_; }
  int64_t bytes_per_pair() const { return bytes_; }
  Rank root() const { return root_; }
  /// Of a neighbour collective; null: no rank has neighbours.
  const std::shared_ptr<const Graph>& graph() const { return graph_; }
  /// True where an origin has the same block for all targets.
  bool same_for_all() const { return ibcoll::same_for_all(collective_); }

  /// Bytes that `origin` has for `target`.
  int64_t bytes(Rank origin, Rank target) const;
  /// Where those lie in the send buffer of `origin`.
  int64_t send_offset(Rank origin, Rank target) const;
  /// Where they go to in the receive buffer of `target`.
  int64_t receive_offset(Rank target, Rank origin) const;
  /// What calls of a collective whose ranks know all blocks go by (allgatherv, reduce_scatter): the
  /// mean of the blocks, rounded down as they do it. Of others the nominal number.
  int64_t mean_bytes() const;
  /// Of a neighbour collective, in place of these: a rank's slots, side by side.
  struct Slot {
    Block block;
    int64_t bytes = 0, offset = 0;
  };
  std::vector<Slot> sent_slots(Rank rank) const { return slots(rank, true); }
  std::vector<Slot> received_slots(Rank rank) const { return slots(rank, false); }
  /// Sizes of a rank's buffers.
  int64_t send_bytes(Rank rank) const;
  int64_t receive_bytes(Rank rank) const;

  /// What all ranks receive, their own blocks included; in reductions, what they contribute.
  int64_t total_bytes() const;
  /// What the busiest server sends to other servers (gather(v): what the root's receives; bcast,
  /// reduce and scans: one block; allreduce: 2 (Ns - 1) / Ns of one; reduce_scatter: the sums for
  /// other servers' ranks). The numerator of the all-to-all bandwidth: with equal servers
  /// Msg (Np - Nlp) Nlp (Naruse et al. 2010).
  int64_t busiest_server_bytes(const Shape& shape) const;
  /// What all ranks together read and write in one call: decides whether caches can hold it.
  int64_t footprint_bytes() const;

 private:
  /// Half, once or one and a half times the nominal bytes.
  int64_t of_class(int which) const;
  std::vector<Slot> slots(Rank rank, bool sent) const;
  int64_t busiest_server_of_graph(const Shape& shape) const;

  Collective collective_;
  int ranks_;
  int64_t bytes_;
  Rank root_;
  std::shared_ptr<const Graph> graph_;
};

}  // namespace ibcoll::measure
