/// Neighbour allgather(v) and alltoall(v) by server: all that a server has for another goes as one
/// message. A rank of the sending server, its *packer*, puts it together; a rank of the receiving
/// one, its *unpacker*, hands the blocks out inside. Of an allgather each origin's block crosses
/// once, however many ranks there want it. Packers and unpackers change with the server at the
/// other end, so that all ranks of a server share the work.
/// Source: mpi-advance (Bienz, Collom et al.: locality-aware neighbour collectives); SA for
/// all-to-all, Kumar 2008.
/// Both ends know the edges between the two servers, so both know what the message holds: for an
/// alltoall the edges by origin, target and copy; for an allgather the origins. What has one origin
/// is sent by that, and a single block for a single place goes straight there.
/// Steps: 3. Messages between servers: one a pair of servers that exchange. Bytes between them: the
/// blocks, those of an allgather once a server. Scratch: the messages.

#include <algorithm>
#include <tuple>

#include "engine/algorithms/neighbors.h"
#include "engine/algorithms/registry.h"

namespace ibcoll {
namespace {

/// An edge between two servers.
struct Crossing {
  int walk;  ///< how far the other server is from this one in the ring of servers
  Rank origin, target;
  uint32_t copy;
  Slice slot;  ///< of the end on this server

  friend bool operator<(const Crossing& a, const Crossing& b) {
    return std::tie(a.walk, a.origin, a.target, a.copy) <
           std::tie(b.walk, b.origin, b.target, b.copy);
  }
};

class Aggregated {
 public:
  Aggregated(Collective collective, const Shape& shape, Rank me, const AlgorithmOptions& options)
      : program_(collective, "aggregated", shape, me, options),
        collective_(collective),
        shape_(shape),
        graph_(options.graph.get()),
        me_(me),
        mine_(shape.server_of(me)) {}

  ProgramPtr build() {
    collect();
    // The network waits for what is gathered here: that comes first.
    program_.begin_relaxed();
    for_each_message(sent_, [&](std::span<const Crossing> edges) { send(edges); });
    for_each_message(received_, [&](std::span<const Crossing> edges) { receive(edges); });
    program_.end_relaxed();
    program_.begin_step(1);
    exchange_local_edges(program_, edges_from(collective_, graph_, me_), edges_to(graph_, me_));
    program_.begin_step(2);
    program_.begin_relaxed();
    uint32_t landed = 0;
    for_each_message(received_, [&](std::span<const Crossing> edges) { hand_out(edges, landed); });
    program_.end_relaxed();
    return program_.finish();
  }

 private:
  /// The edges of all ranks of this server that lead to others or come from them.
  void collect() {
    const int servers = shape_.servers();
    for (const Rank rank : shape_.members(mine_)) {
      for (const NeighborEdge& edge : edges_from(collective_, graph_, rank)) {
        const int walk = (shape_.server_of(edge.peer) - mine_ + servers) % servers;
        if (walk != 0) sent_.push_back({walk, rank, edge.peer, edge.copy, edge.slot});
      }
      for (const NeighborEdge& edge : edges_to(graph_, rank)) {
        const int walk = (mine_ - shape_.server_of(edge.peer) + servers) % servers;
        if (walk != 0) received_.push_back({walk, edge.peer, rank, edge.copy, edge.slot});
      }
    }
    std::sort(sent_.begin(), sent_.end());
    std::sort(received_.begin(), received_.end());
  }

  /// Calls visit(edges) for each other server, in the order of the walk.
  template <class Visit>
  static void for_each_message(const std::vector<Crossing>& all, Visit&& visit) {
    for (size_t first = 0, end = 0; first < all.size(); first = end) {
      while (end < all.size() && all[end].walk == all[first].walk) ++end;
      visit(std::span(all).subspan(first, end - first));
    }
  }

  /// Calls visit(edges) for each block of a message: one edge, or those of an allgather that the
  /// block of one origin is for.
  template <class Visit>
  void for_each_block(std::span<const Crossing> edges, Visit&& visit) const {
    const bool one = same_for_all(collective_);
    for (size_t first = 0, end = 0; first < edges.size(); first = end) {
      for (end = first + 1; one && end < edges.size() && edges[end].origin == edges[first].origin;)
        ++end;
      visit(edges.subspan(first, end - first));
    }
  }

  struct Ends {
    Rank packer, unpacker;
    uint32_t blocks;
    bool straight;  ///< one block for one place: it lands there
  };
  Ends ends_of(std::span<const Crossing> edges) const {
    // Of ranks that have edges: others need not know what the call moves. Messages of a server are
    // dealt to them, so far as these lists allow.
    std::vector<Rank> origins, targets;
    for (const Crossing& edge : edges) {
      origins.push_back(edge.origin);
      targets.push_back(edge.target);
    }
    const auto pick = [](std::vector<Rank>& ranks, int by) {
      std::sort(ranks.begin(), ranks.end());
      ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
      return ranks[static_cast<size_t>(by) % ranks.size()];
    };
    Ends ends{pick(origins, shape_.server_of(edges.front().target)),
              pick(targets, shape_.server_of(edges.front().origin)), 0, edges.size() == 1};
    for_each_block(edges, [&](auto) { ++ends.blocks; });
    return ends;
  }

  Block block_of(const Crossing& edge) const {
    return {edge.origin,
            same_for_all(collective_) ? Block::kEveryone : graph_->target(edge.target, edge.copy)};
  }

  /// Scratch for the blocks of a message.
  Slice add_message(std::span<const Crossing> edges) {
    blocks_.clear();
    for_each_block(edges, [&](auto block) { blocks_.push_back(block_of(block.front())); });
    return program_.add_scratch(blocks_);
  }
  static Slice at(const Slice& message, uint32_t place) {
    return {message.buffer, message.first + place, 1};
  }

  void send(std::span<const Crossing> edges) {
    const Ends ends = ends_of(edges);
    if (ends.blocks == 1) {  // a message already, of its origin
      if (me_ == ends.packer) program_.put(ends.unpacker, edges.front().slot);
      return;
    }
    const bool packs = me_ == ends.packer;
    const Slice message = packs ? add_message(edges) : Slice{};
    uint32_t place = 0;
    for_each_block(edges, [&](std::span<const Crossing> block) {
      const Crossing& edge = block.front();
      const uint32_t slot = place++;
      if (packs && edge.origin == me_) {
        program_.copy(at(message, slot), edge.slot);
      } else if (packs) {
        program_.expect(edge.origin, at(message, slot));
      } else if (edge.origin == me_) {
        program_.put(ends.packer, edge.slot);
      }
    });
    if (packs) program_.put(ends.unpacker, message);
  }

  void receive(std::span<const Crossing> edges) {
    const Ends ends = ends_of(edges);
    if (me_ != ends.unpacker) return;
    const Slice message = ends.straight ? edges.front().slot : add_message(edges);
    program_.expect(ends.packer, message);
    messages_.push_back(message);
  }

  /// `landed`: how many messages this rank has handed out.
  void hand_out(std::span<const Crossing> edges, uint32_t& landed) {
    const Ends ends = ends_of(edges);
    const bool unpacks = me_ == ends.unpacker;
    const Slice message = unpacks ? messages_[landed++] : Slice{};
    if (ends.straight) return;
    uint32_t place = 0;
    for_each_block(edges, [&](std::span<const Crossing> block) {
      const uint32_t slot = place++;
      for (const Crossing& edge : block) {
        if (unpacks && edge.target == me_) {
          program_.copy(edge.slot, at(message, slot));
        } else if (unpacks) {
          program_.put(edge.target, at(message, slot));
        } else if (edge.target == me_) {
          program_.expect(ends.unpacker, edge.slot);
        }
      }
    });
  }

  ProgramBuilder program_;
  const Collective collective_;
  const Shape& shape_;
  const Graph* const graph_;
  const Rank me_;
  const int mine_;
  std::vector<Crossing> sent_, received_;
  std::vector<Slice> messages_;  ///< that land at this rank, in the order of the walk
  std::vector<Block> blocks_;
};

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  return Aggregated(collective, shape, me, options).build();
}

constexpr AlgorithmSpec kSpec{
    .name = "aggregated",
    .collectives = {Collective::kNeighborAllgather, Collective::kNeighborAllgatherv,
                    Collective::kNeighborAlltoall, Collective::kNeighborAlltoallv,
                    Collective::kNeighborAlltoallw},
    .summary = "one message a pair of servers that exchange",
    .when = "small blocks, and several neighbours on each other server",
    .source = "mpi-advance; Kumar 2008",
    .relays = true,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
