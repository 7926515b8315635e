#pragma once
/// The collectives there are, and which block lies in which slot of a rank's buffers.

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/base/result.h"
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
};

inline constexpr std::array kCollectives = {
    Collective::kAlltoall,      Collective::kAlltoallv,
    Collective::kAllgather,     Collective::kAllgatherv,
    Collective::kGather,        Collective::kGatherv,
    Collective::kScatter,       Collective::kScatterv,
    Collective::kBcast,         Collective::kReduce,
    Collective::kBarrier,       Collective::kAllreduce,
    Collective::kReduceScatter, Collective::kReduceScatterBlock,
    Collective::kScan,          Collective::kExscan};

/// True where one rank, the root, has a part of its own.
bool has_root(Collective collective);
/// True where blocks may differ in length.
bool is_unequal(Collective collective);
/// True where the data of several ranks is combined.
bool reduces(Collective collective);
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
  /// As target: part i of what is for all is kFirstPart - i (RankProgram::cut).
  static constexpr Rank kFirstPart = -4;
  Rank origin = kNobody;
  Rank target = kNobody;
  friend bool operator==(const Block&, const Block&) = default;
};

/// Slots of the send and the receive buffer of rank `me`, and the block that each holds or is for.
/// `root` means something where has_root().
/// - alltoall(v): send slot i is for rank i, receive slot i comes from rank i;
/// - allgather(v): one slot is sent, slot i received from rank i;
/// - gather(v): one slot is sent, slot i of the root received from rank i, nothing by others;
/// - scatter(v): slot i of the root is for rank i, others send nothing; one slot is received;
/// - bcast: the root sends one slot, the others receive one;
/// - reduce: one slot is sent, the root receives one that holds all of them combined;
/// - allreduce, scan, exscan: one slot is sent, one received that holds those of all ranks, of the
///   ranks up to this one, or of those before it, combined; rank 0 receives none of an exscan;
/// - reduce_scatter(_block): send slot i is for rank i, one is received that holds all that is for
///   this rank, combined;
/// - barrier: none.
uint32_t send_slots(Collective collective, const Shape& shape, Rank me, Rank root);
uint32_t recv_slots(Collective collective, const Shape& shape, Rank me, Rank root);
Block send_block(Collective collective, Rank me, Rank root, uint32_t slot);
Block recv_block(Collective collective, Rank me, Rank root, uint32_t slot);
/// Of a reduction: how many ranks' data rank `me` receives combined, from rank 0 on.
Rank contributors(Collective collective, const Shape& shape, Rank me);

const char* to_string(Collective collective);
Result<Collective> parse_collective(std::string_view text);
/// "alltoall, alltoallv, ...": for help texts.
std::string collective_names();

}  // namespace ibcoll
