#pragma once
/// The collectives there are, and which block lies in which slot of a rank's buffers.

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/base/result.h"
#include "engine/schedule/graph.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

enum class Collective : uint8_t {
  kAlltoall,
  kAlltoallv,
  kAllgather,
  kAllgatherv,
  kGather,
  kGatherv,
  kScatter,
  kScatterv,
  kBcast,
  kReduce,
  kBarrier,
  kAllreduce,
  kReduceScatter,
  kReduceScatterBlock,
  kScan,
  kExscan,
  kAlltoallw,
  kNeighborAllgather,
  kNeighborAllgatherv,
  kNeighborAlltoall,
  kNeighborAlltoallv,
  kNeighborAlltoallw,
};

inline constexpr std::array kCollectives = {Collective::kAlltoall,
                                            Collective::kAlltoallv,
                                            Collective::kAllgather,
                                            Collective::kAllgatherv,
                                            Collective::kGather,
                                            Collective::kGatherv,
                                            Collective::kScatter,
                                            Collective::kScatterv,
                                            Collective::kBcast,
                                            Collective::kReduce,
                                            Collective::kBarrier,
                                            Collective::kAllreduce,
                                            Collective::kReduceScatter,
                                            Collective::kReduceScatterBlock,
                                            Collective::kScan,
                                            Collective::kExscan,
                                            Collective::kAlltoallw,
                                            Collective::kNeighborAllgather,
                                            Collective::kNeighborAllgatherv,
                                            Collective::kNeighborAlltoall,
                                            Collective::kNeighborAlltoallv,
                                            Collective::kNeighborAlltoallw};

/// True where one rank, the root, has a part of its own.
bool has_root(Collective collective);
/// True where ranks may end a call before others have begun it.
bool is_one_way(Collective collective);
/// True where blocks may differ in length.
bool is_unequal(Collective collective);
/// True where each rank has a block of its own for each other.
bool is_alltoall(Collective collective);
/// The same of neighbours.
bool is_neighbor_alltoall(Collective collective);
/// True where every block may have a layout of its own, and says so.
bool has_blocks(Collective collective);
/// True where the data of several ranks is combined.
bool reduces(Collective collective);
/// True where ranks have to do with their neighbours in a graph alone. What a put of theirs is for
/// is then known to its sender, but not in which slot of the receiver's it belongs: that is the
/// receiver's to say.
bool has_graph(Collective collective);
/// True where slots that follow each other in number lie side by side in the user's buffers.
bool lies_side_by_side(Collective collective);
/// True where every rank knows the lengths of all blocks, or all have one.
bool knows_all_lengths(Collective collective);

/// The data that `origin` has for `target`; target `kEveryone` where all get the same (allgather,
/// bcast).
struct Block {
  static constexpr Rank kEveryone = -1;
  static constexpr Rank kNobody = -2;    ///< as origin: the slot holds nothing yet
  static constexpr Rank kCombined = -3;  ///< as origin: of several ranks, combined
  // Of several edges from the origin to rank t, the copy k (Graph) has the target t + k * ranks.
  /// As target: part i of what is for all is kFirstPart - i (RankProgram::cut).
  static constexpr Rank kFirstPart = -4;
  Rank origin = kNobody;
  Rank target = kNobody;
  friend bool operator==(const Block&, const Block&) = default;
};

/// Slots of the send and the receive buffer of rank `me`, and the block that each holds or is for.
/// `root` means something where has_root().
/// - alltoall(v, w): send slot i is for rank i, receive slot i comes from rank i;
/// - allgather(v): one slot is sent, slot i received from rank i;
/// - gather(v): one slot is sent, slot i of the root received from rank i, nothing by others;
/// - scatter(v): slot i of the root is for rank i, others send nothing; one slot is received;
/// - bcast: the root sends one slot, the others receive one;
/// - reduce: one slot is sent, the root receives one that holds all of them combined;
/// - allreduce, scan, exscan: one slot is sent, one received that holds those of all ranks, of the
///   ranks up to this one, or of those before it, combined; rank 0 receives none of an exscan;
/// - reduce_scatter(_block): send slot i is for rank i, one is received that holds all that is for
///   this rank, combined;
/// - barrier: none;
/// - neighbor_alltoall(v): send slot i is for the i-th destination of the rank in `graph`, receive
///   slot i comes from its i-th source;
/// - neighbor_allgather(v): one slot is sent, slot i received from the i-th source.
/// `graph` must know the rank; without one it has no neighbours.
uint32_t send_slots(Collective collective, const Shape& shape, Rank me, Rank root,
                    const Graph* graph = nullptr);
uint32_t recv_slots(Collective collective, const Shape& shape, Rank me, Rank root,
                    const Graph* graph = nullptr);
Block send_block(Collective collective, Rank me, Rank root, uint32_t slot,
                 const Graph* graph = nullptr);
Block recv_block(Collective collective, Rank me, Rank root, uint32_t slot,
                 const Graph* graph = nullptr);
/// Of a reduction: how many ranks' data rank `me` receives combined, from rank 0 on.
Rank contributors(Collective collective, const Shape& shape, Rank me);

const char* to_string(Collective collective);
Result<Collective> parse_collective(std::string_view text);
/// "alltoall, alltoallv, ...": for help texts.
std::string collective_names();

}  // namespace ibcoll
