#pragma once
/// What the rows of the collectives (collective_traits.h) mean for a call: which block lies in
/// which slot of a rank's buffers.

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/schedule/collective_traits.h"
#include "engine/schedule/graph.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

/// The data that `origin` has for `target`; target `kEveryone` where all get the same (allgather,
/// bcast).
struct Block {
  static constexpr Rank kEveryone = -1;
  static constexpr Rank kNobody = -2;    ///< as origin: the slot holds nothing yet
  static constexpr Rank kCombined = -3;  ///< as origin: of several ranks, combined
  // Of several edges from the origin to rank t, the copy k (Graph) has the target t + k * ranks.
  /// As target: part i of what is for all, or for the root, is kFirstPart - i (RankProgram::cut),
  /// that of what is for rank t kFirstPart - (t * cut + i).
  static constexpr Rank kFirstPart = -4;
  Rank origin = kNobody;
  Rank target = kNobody;
  friend bool operator==(const Block&, const Block&) = default;
};

/// Whether a rank has the slots of that side. `root` means something where has_root().
constexpr bool holds(const SideTraits& side, Rank me, Rank root) {
  switch (side.holders) {
    case Holders::kAll:
      break;
    case Holders::kRoot:
      return me == root;
    case Holders::kAllButRoot:
      return me != root;
    case Holders::kAllButFirst:
      return me != 0;
  }
  return true;
}

/// The slots of a side that are not of neighbours.
inline uint32_t slots_of(const SideTraits& side, const Shape& shape, Rank me, Rank root) {
  if (side.slots == Slots::kNone || !holds(side, me, root)) return 0;
  return side.slots == Slots::kOne ? 1 : static_cast<uint32_t>(shape.ranks());
}
/// Slots of the send and the receive buffer of rank `me`. `graph` must know the rank; without one
/// it has no neighbours.
inline uint32_t send_slots(Collective collective, const Shape& shape, Rank me, Rank root,
                           const Graph* graph = nullptr) {
  const SideTraits& side = traits(collective).send;
  if (side.slots != Slots::kEachNeighbor) return slots_of(side, shape, me, root);
  return graph == nullptr ? 0 : static_cast<uint32_t>(graph->destinations(me).size());
}
inline uint32_t recv_slots(Collective collective, const Shape& shape, Rank me, Rank root,
                           const Graph* graph = nullptr) {
  const SideTraits& side = traits(collective).recv;
  if (side.slots != Slots::kEachNeighbor) return slots_of(side, shape, me, root);
  return graph == nullptr ? 0 : static_cast<uint32_t>(graph->sources(me).size());
}
/// The block that a slot holds, or is for. Collectives with a graph need it.
Block send_block(Collective collective, Rank me, Rank root, uint32_t slot,
                 const Graph* graph = nullptr);
Block recv_block(Collective collective, Rank me, Rank root, uint32_t slot,
                 const Graph* graph = nullptr);
/// Whether parts of blocks are numbered through all ranks they are for (Block::kFirstPart).
constexpr bool parts_have_targets(Collective collective) {
  return traits(collective).send.target == End::kSlot;
}
/// Part `part` of a block that is cut into `cut`.
constexpr Block part_of(Collective collective, const Block& whole, uint32_t part, uint32_t cut) {
  const Rank before = parts_have_targets(collective) ? whole.target * static_cast<Rank>(cut) : 0;
  return {whole.origin, Block::kFirstPart - before - static_cast<Rank>(part)};
}
/// Which part of its block that is.
constexpr uint32_t part_number(const Block& part, uint32_t cut) {
  return static_cast<uint32_t>(Block::kFirstPart - part.target) % cut;
}
/// Of a reduction: how many ranks' data rank `me` receives combined, from rank 0 on.
Rank contributors(Collective collective, const Shape& shape, Rank me);

Result<Collective> parse_collective(std::string_view text);
/// "alltoall, alltoallv, ...": for help texts.
std::string collective_names();

}  // namespace ibcoll
