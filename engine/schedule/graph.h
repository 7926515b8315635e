#pragma once
/// Who sends to whom in the neighbour collectives.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

/// A directed graph over the ranks of a shape, as far as it is known here: the engine knows the
/// neighbours of the ranks of its server, studies and tests those of all ranks. Immutable.
///
/// Each rank lists its *sources*, from which it receives, and its *destinations*, to which it
/// sends, in its own order; that is the order of its slots. A rank may list the same one several
/// times, and itself: the k-th edge from A to B in A's destinations is the k-th from A in B's
/// sources. k counts from 0 and is the edge's *copy*.
class Graph {
 public:
  struct Neighbours {
    std::vector<Rank> sources, destinations;
  };
  /// What all ranks know alike, since they have added it up.
  struct Totals {
    uint64_t edges = 0;
    uint64_t crossing = 0;  ///< of these, between servers
    /// Over the pairs of servers: the ranks of the one that send to the other.
    uint64_t origins = 0;
    uint64_t pairs = 0;  ///< pairs of servers, in order, with an edge from the one to the other
    friend bool operator==(const Totals&, const Totals&) = default;
  };

  /// Of all ranks. Fails where a rank is not there, or where two do not agree on the number of
  /// edges between them; the error names them.
  static Result<std::shared_ptr<const Graph>> create(const Shape& shape,
                                                     std::span<const Neighbours> of_rank);
  /// The same from edges (source, destination), in the order of which ranks list them.
  struct Edge {
    Rank from = 0, to = 0;
  };
  static Result<std::shared_ptr<const Graph>> create(const Shape& shape,
                                                     std::span<const Edge> edges);
  /// Of the ranks `known`, ascending, whose neighbours are there, before all ranks have agreed.
  Graph(int ranks, std::vector<Rank> known, std::span<const Neighbours> neighbours);
  /// What all ranks have agreed on: the sum of Part::hash, and the totals.
  void agree(uint64_t sum_of_hashes, const Totals& totals);

  int ranks() const { return ranks_; }
  bool knows(Rank rank) const { return find(rank) < known_.size(); }
  /// Nobody for a rank that is not known.
  std::span<const Rank> sources(Rank rank) const { return list(sources_, rank).peers; }
  std::span<const Rank> destinations(Rank rank) const { return list(destinations_, rank).peers; }
  /// By slot: the edge's copy.
  std::span<const uint32_t> source_copies(Rank rank) const { return list(sources_, rank).copies; }
  std::span<const uint32_t> destination_copies(Rank rank) const {
    return list(destinations_, rank).copies;
  }
  /// What a block is for (Block::target): the edge of that copy to rank `to`.
  Rank target(Rank to, uint32_t copy) const { return to + static_cast<Rank>(copy) * ranks_; }
  const Totals& totals() const { return totals_; }
  /// Of all neighbours of all ranks, in their order.
  uint64_t hash() const { return hash_; }
  /// Bytes of memory it occupies.
  size_t memory_bytes() const;

  /// One rank's part of the sum that hash() is made of, and of two sums of a hash an edge, those of
  /// destinations less those of sources: over all ranks they are 0 where all agree.
  struct Part {
    uint64_t hash = 0;
    uint64_t open[2] = {0, 0};
  };
  static Part part_of(Rank rank, const Neighbours& neighbours);
  /// What the ranks of a server add to the totals; of a graph that knows them all.
  Totals totals_of(const Shape& shape, int server) const;
  /// So many edges at most lead from one rank to another: what tells blocks apart has 31 bits.
  static uint32_t most_copies(int ranks);

 private:
  /// The lists of all known ranks, one after the other.
  struct Lists {
    std::vector<uint32_t> first;  ///< by place in known_, and the end
    std::vector<Rank> peers;
    std::vector<uint32_t> copies;
  };
  struct List {
    std::span<const Rank> peers;
    std::span<const uint32_t> copies;
  };
  static void append(const std::vector<Rank>& peers, Lists& lists);
  size_t find(Rank rank) const;
  List list(const Lists& lists, Rank rank) const;

  int ranks_;
  std::vector<Rank> known_;
  Lists sources_, destinations_;
  uint64_t hash_ = 0;
  Totals totals_;
};

/// What two ranks do not agree on: how many edges lead from the one to the other.
std::string disagreement(Rank from, uint64_t sends, Rank to, uint64_t expects);

}  // namespace ibcoll
