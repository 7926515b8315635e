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
};

inline constexpr std::array kCollectives = {
    Collective::kAlltoall, Collective::kAlltoallv, Collective::kAllgather, Collective::kAllgatherv,
    Collective::kGather,   Collective::kGatherv,   Collective::kScatter,   Collective::kScatterv,
    Collective::kBcast,    Collective::kReduce,    Collective::kBarrier};

/// True where one rank, the root, has a part of its own.
bool has_root(Collective collective);
/// True where blocks may differ in length.
bool is_unequal(Collective collective);

/// The data that `origin` has for `target`; target `kEveryone` where all get the same (allgather,
/// bcast).
struct Block {
  static constexpr Rank kEveryone = -1;
  static constexpr Rank kNobody = -2;    ///< as origin: the slot holds nothing yet
  static constexpr Rank kCombined = -3;  ///< as origin: of several ranks, combined (reduce)
  /// As target: part i of what the origin has for all is kFirstPart - i (RankProgram::cut).
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
/// - barrier: none.
uint32_t send_slots(Collective collective, const Shape& shape, Rank me, Rank root);
uint32_t recv_slots(Collective collective, const Shape& shape, Rank me, Rank root);
Block send_block(Collective collective, Rank me, Rank root, uint32_t slot);
Block recv_block(Collective collective, Rank me, Rank root, uint32_t slot);

const char* to_string(Collective collective);
Result<Collective> parse_collective(std::string_view text);
/// "alltoall, alltoallv, ...": for help texts.
std::string collective_names();

}  // namespace ibcoll
