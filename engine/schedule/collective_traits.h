#pragma once
/// The collectives there are, a row each. Whoever has to know what a collective does reads its row;
/// a switch over collectives is for code that differs from one to the other.

#include <array>
#include <cstddef>
#include <cstdint>

namespace ibcoll {

/// The numbers are those of the C interface (ibcoll_collective).
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

/// How many slots a side of a call has, on ranks that have any.
enum class Slots : uint8_t {
  kNone,
  kOne,
  kEachRank,      ///< slot i is of rank i
  kEachNeighbor,  ///< slot i is of the i-th destination where it is sent, of the i-th source else
};

/// Which ranks have them.
enum class Holders : uint8_t { kAll, kRoot, kAllButRoot, kAllButFirst };

/// One end of a slot's block: its origin, or its target (Block).
enum class End : uint8_t {
  kMe,    ///< the rank whose slot it is
  kRoot,  ///< of the call
  kSlot,  ///< the rank that has the slot's number
  kEdge,  ///< of the slot's edge in the graph; as target with the edge's copy
  kEveryone,
  kCombined,
};

/// How a call says the lengths of a side's blocks (CallArguments).
enum class Lengths : uint8_t {
  kEqual,     ///< one length, for all blocks of the call
  kOwn,       ///< a count, of the only block
  kElements,  ///< a list of all ranks' blocks, in elements, the same on all ranks; they lie side by
              ///< side
  kLists,     ///< a list of counts, and one of places
  kLayouts,   ///< every block has a layout, which says it
};

/// Where the data to send lies in a call in place.
enum class InPlace : uint8_t {
  kNever,      ///< there is no such call
  kOneBuffer,  ///< nor need there be: one buffer is for both sides
  kReceive,    ///< in the receive buffer, where it is to end up; where there is a root, its own
  kAside,      ///< in the receive buffer, where other data is to land: it is moved aside first
  kSend,       ///< the root's own block stays in the send buffer
};

/// Whose data a rank receives combined.
enum class Combines : uint8_t { kNothing, kOfAll, kUpToMe, kBeforeMe };

/// The send or the receive side of a call.
struct SideTraits {
  Slots slots = Slots::kNone;
  End origin = End::kMe, target = End::kMe;
  Lengths lengths = Lengths::kEqual;
  Holders holders = Holders::kAll;

  /// Whether the lengths are a list with an entry a slot.
  constexpr bool lists() const { return lengths >= Lengths::kLists; }
};

struct CollectiveTraits {
  const char* name;
  Collective collective;
  /// The same with blocks of one length; itself where they are. What moves, and who combines what,
  /// is the same: switches over this have a case for both.
  Collective equal;
  SideTraits send = {}, recv = {};
  InPlace in_place = InPlace::kNever;
  Combines combines = Combines::kNothing;
  bool cuts = false;       ///< its blocks may be cut into several slots each (RankProgram::cut)
  bool needs_all = false;  ///< no rank can end a call before all have made it, whatever the lengths

  // What follows from these: see completed().
  bool moves_data = false;         ///< there are blocks at all
  bool has_root = false;           ///< one rank, the root, has a part of its own
  bool has_graph = false;          ///< ranks have to do with their neighbours in a graph alone
  bool reduces = false;            ///< the data of several ranks is combined
  bool unequal = false;            ///< blocks may differ in length
  bool one_way = false;            ///< ranks may end a call before others have begun it
  bool side_by_side = false;       ///< slots that follow each other do so in the user's buffers
  bool knows_all_lengths = false;  ///< every rank knows the lengths of all blocks, or all have one
};
static_assert(sizeof(CollectiveTraits) == 32, "a row is found by a shift");

constexpr CollectiveTraits completed(CollectiveTraits row) {
  row.moves_data = row.send.slots != Slots::kNone;
  row.has_root = row.send.holders == Holders::kRoot || row.recv.holders == Holders::kRoot;
  row.has_graph = row.recv.slots == Slots::kEachNeighbor;
  row.reduces = row.combines != Combines::kNothing;
  row.unequal = row.send.lengths != Lengths::kEqual;
  row.one_way = row.has_root || (row.reduces && row.combines != Combines::kOfAll);
  row.side_by_side = !row.unequal || row.send.lengths == Lengths::kElements;
  // Where everyone receives everything its lists are of all blocks.
  const bool receives_all = row.recv.slots == Slots::kEachRank && row.recv.target == End::kEveryone;
  row.knows_all_lengths = row.side_by_side || receives_all;
  return row;
}

/// By the numbers of the collectives.
inline constexpr std::array kCollectiveTraits = {
    completed({.name = "alltoall",
               .collective = Collective::kAlltoall,
               .equal = Collective::kAlltoall,
               .send = {Slots::kEachRank, End::kMe, End::kSlot},
               .recv = {Slots::kEachRank, End::kSlot, End::kMe},
               .in_place = InPlace::kAside,
               .cuts = true,
               .needs_all = true}),
    completed({.name = "alltoallv",
               .collective = Collective::kAlltoallv,
               .equal = Collective::kAlltoall,
               .send = {Slots::kEachRank, End::kMe, End::kSlot, Lengths::kLists},
               .recv = {Slots::kEachRank, End::kSlot, End::kMe, Lengths::kLists},
               .in_place = InPlace::kAside}),
    completed({.name = "allgather",
               .collective = Collective::kAllgather,
               .equal = Collective::kAllgather,
               .send = {Slots::kOne, End::kMe, End::kEveryone},
               .recv = {Slots::kEachRank, End::kSlot, End::kEveryone},
               .in_place = InPlace::kReceive,
               .cuts = true,
               .needs_all = true}),
    completed({.name = "allgatherv",
               .collective = Collective::kAllgatherv,
               .equal = Collective::kAllgather,
               .send = {Slots::kOne, End::kMe, End::kEveryone, Lengths::kOwn},
               .recv = {Slots::kEachRank, End::kSlot, End::kEveryone, Lengths::kLists},
               .in_place = InPlace::kReceive}),
    completed({.name = "gather",
               .collective = Collective::kGather,
               .equal = Collective::kGather,
               .send = {Slots::kOne, End::kMe, End::kRoot},
               .recv = {Slots::kEachRank, End::kSlot, End::kMe, Lengths::kEqual, Holders::kRoot},
               .in_place = InPlace::kReceive,
               .cuts = true}),
    completed({.name = "gatherv",
               .collective = Collective::kGatherv,
               .equal = Collective::kGather,
               .send = {Slots::kOne, End::kMe, End::kRoot, Lengths::kOwn},
               .recv = {Slots::kEachRank, End::kSlot, End::kMe, Lengths::kLists, Holders::kRoot},
               .in_place = InPlace::kReceive}),
    completed({.name = "scatter",
               .collective = Collective::kScatter,
               .equal = Collective::kScatter,
               .send = {Slots::kEachRank, End::kMe, End::kSlot, Lengths::kEqual, Holders::kRoot},
               .recv = {Slots::kOne, End::kRoot, End::kMe},
               .in_place = InPlace::kSend,
               .cuts = true}),
    completed({.name = "scatterv",
               .collective = Collective::kScatterv,
               .equal = Collective::kScatter,
               .send = {Slots::kEachRank, End::kMe, End::kSlot, Lengths::kLists, Holders::kRoot},
               .recv = {Slots::kOne, End::kRoot, End::kMe, Lengths::kOwn},
               .in_place = InPlace::kSend}),
    completed(
        {.name = "bcast",
         .collective = Collective::kBcast,
         .equal = Collective::kBcast,
         .send = {Slots::kOne, End::kMe, End::kEveryone, Lengths::kEqual, Holders::kRoot},
         .recv = {Slots::kOne, End::kRoot, End::kEveryone, Lengths::kEqual, Holders::kAllButRoot},
         .in_place = InPlace::kOneBuffer,
         .cuts = true}),
    completed({.name = "reduce",
               .collective = Collective::kReduce,
               .equal = Collective::kReduce,
               .send = {Slots::kOne, End::kCombined, End::kRoot},
               .recv = {Slots::kOne, End::kCombined, End::kRoot, Lengths::kEqual, Holders::kRoot},
               .in_place = InPlace::kAside,
               .combines = Combines::kOfAll,
               .cuts = true}),
    completed({.name = "barrier",
               .collective = Collective::kBarrier,
               .equal = Collective::kBarrier,
               .needs_all = true}),
    completed({.name = "allreduce",
               .collective = Collective::kAllreduce,
               .equal = Collective::kAllreduce,
               .send = {Slots::kOne, End::kCombined, End::kEveryone},
               .recv = {Slots::kOne, End::kCombined, End::kEveryone},
               .in_place = InPlace::kAside,
               .combines = Combines::kOfAll,
               .cuts = true,
               .needs_all = true}),
    completed({.name = "reduce_scatter",
               .collective = Collective::kReduceScatter,
               .equal = Collective::kReduceScatterBlock,
               .send = {Slots::kEachRank, End::kCombined, End::kSlot, Lengths::kElements},
               .recv = {Slots::kOne, End::kCombined, End::kMe, Lengths::kElements},
               .in_place = InPlace::kAside,
               .combines = Combines::kOfAll,
               .needs_all = true}),
    completed({.name = "reduce_scatter_block",
               .collective = Collective::kReduceScatterBlock,
               .equal = Collective::kReduceScatterBlock,
               .send = {Slots::kEachRank, End::kCombined, End::kSlot},
               .recv = {Slots::kOne, End::kCombined, End::kMe},
               .in_place = InPlace::kAside,
               .combines = Combines::kOfAll,
               .cuts = true,
               .needs_all = true}),
    completed({.name = "scan",
               .collective = Collective::kScan,
               .equal = Collective::kScan,
               .send = {Slots::kOne, End::kCombined, End::kEveryone},
               .recv = {Slots::kOne, End::kCombined, End::kEveryone},
               .in_place = InPlace::kAside,
               .combines = Combines::kUpToMe}),
    completed({.name = "exscan",
               .collective = Collective::kExscan,
               .equal = Collective::kExscan,
               .send = {Slots::kOne, End::kCombined, End::kEveryone},
               .recv = {Slots::kOne, End::kCombined, End::kEveryone, Lengths::kEqual,
                        Holders::kAllButFirst},
               .in_place = InPlace::kAside,
               .combines = Combines::kBeforeMe}),
    completed({.name = "alltoallw",
               .collective = Collective::kAlltoallw,
               .equal = Collective::kAlltoall,
               .send = {Slots::kEachRank, End::kMe, End::kSlot, Lengths::kLayouts},
               .recv = {Slots::kEachRank, End::kSlot, End::kMe, Lengths::kLayouts},
               .in_place = InPlace::kAside}),
    completed({.name = "neighbor_allgather",
               .collective = Collective::kNeighborAllgather,
               .equal = Collective::kNeighborAllgather,
               .send = {Slots::kOne, End::kMe, End::kEveryone},
               .recv = {Slots::kEachNeighbor, End::kEdge, End::kEveryone}}),
    completed({.name = "neighbor_allgatherv",
               .collective = Collective::kNeighborAllgatherv,
               .equal = Collective::kNeighborAllgather,
               .send = {Slots::kOne, End::kMe, End::kEveryone, Lengths::kOwn},
               .recv = {Slots::kEachNeighbor, End::kEdge, End::kEveryone, Lengths::kLists}}),
    completed({.name = "neighbor_alltoall",
               .collective = Collective::kNeighborAlltoall,
               .equal = Collective::kNeighborAlltoall,
               .send = {Slots::kEachNeighbor, End::kMe, End::kEdge},
               .recv = {Slots::kEachNeighbor, End::kEdge, End::kEdge}}),
    completed({.name = "neighbor_alltoallv",
               .collective = Collective::kNeighborAlltoallv,
               .equal = Collective::kNeighborAlltoall,
               .send = {Slots::kEachNeighbor, End::kMe, End::kEdge, Lengths::kLists},
               .recv = {Slots::kEachNeighbor, End::kEdge, End::kEdge, Lengths::kLists}}),
    completed({.name = "neighbor_alltoallw",
               .collective = Collective::kNeighborAlltoallw,
               .equal = Collective::kNeighborAlltoall,
               .send = {Slots::kEachNeighbor, End::kMe, End::kEdge, Lengths::kLayouts},
               .recv = {Slots::kEachNeighbor, End::kEdge, End::kEdge, Lengths::kLayouts}}),
};

constexpr const CollectiveTraits& traits(Collective collective) {
  return kCollectiveTraits[static_cast<size_t>(collective)];
}

// Of the rows, what many ask for.

constexpr bool moves_data(Collective collective) { return traits(collective).moves_data; }
constexpr bool has_root(Collective collective) { return traits(collective).has_root; }
constexpr bool is_one_way(Collective collective) { return traits(collective).one_way; }
constexpr bool is_unequal(Collective collective) { return traits(collective).unequal; }
constexpr bool reduces(Collective collective) { return traits(collective).reduces; }
/// What a put is for is then known to its sender, but not in which slot of the receiver's it
/// belongs: that is the receiver's to say.
constexpr bool has_graph(Collective collective) { return traits(collective).has_graph; }
constexpr bool lies_side_by_side(Collective collective) { return traits(collective).side_by_side; }
constexpr bool knows_all_lengths(Collective collective) {
  return traits(collective).knows_all_lengths;
}
/// True where each rank has a block of its own for each other.
constexpr bool is_alltoall(Collective collective) {
  return traits(collective).equal == Collective::kAlltoall;
}
/// True where every block may have a layout of its own, and says so.
constexpr bool has_blocks(Collective collective) {
  return traits(collective).send.lengths == Lengths::kLayouts;
}
/// True where one buffer is for both sides.
constexpr bool has_one_buffer(Collective collective) {
  return traits(collective).in_place == InPlace::kOneBuffer;
}
/// True where a rank has one slot at most on either side: there is one length, in all collectives
/// that differ from this in the lengths of blocks alone.
constexpr bool has_one_block(Collective collective) {
  const CollectiveTraits& row = traits(collective);
  return row.send.slots == Slots::kOne && row.recv.slots == Slots::kOne;
}
/// True where an origin has one block, the same for all that get one.
constexpr bool same_for_all(Collective collective) {
  return traits(collective).send.target == End::kEveryone && !reduces(collective);
}

constexpr const char* to_string(Collective collective) { return traits(collective).name; }

/// All of them, by number.
inline constexpr auto kCollectives = [] {
  std::array<Collective, kCollectiveTraits.size()> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = kCollectiveTraits[i].collective;
  return all;
}();

static_assert(
    [] {
      for (size_t i = 0; i < kCollectives.size(); ++i) {
        if (static_cast<size_t>(kCollectives[i]) != i) return false;
      }
      return true;
    }(),
    "row i is of collective i");
static_assert(
    [] {
      for (const CollectiveTraits& row : kCollectiveTraits) {
        const CollectiveTraits& equal = traits(row.equal);
        const auto as_equal = [](SideTraits side) {
          return std::array{static_cast<int>(side.slots), static_cast<int>(side.holders),
                            static_cast<int>(side.origin), static_cast<int>(side.target)};
        };
        if (equal.unequal || as_equal(row.send) != as_equal(equal.send) ||
            as_equal(row.recv) != as_equal(equal.recv) || row.in_place != equal.in_place ||
            row.combines != equal.combines)
          return false;
      }
      return true;
    }(),
    "a collective and its equal one differ in the lengths of blocks alone");
static_assert(
    [] {
      for (const CollectiveTraits& row : kCollectiveTraits) {
        if (row.unequal && has_one_block(row.collective)) return false;
      }
      return true;
    }(),
    "where there is one block no lengths differ");

}  // namespace ibcoll
