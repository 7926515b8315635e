#pragma once
/// The schedule of one rank in one collective call: what it moves, and in which order. Algorithms
/// write programs (through ProgramBuilder); the verifier, the executor, the simulator and the
/// drawing read them.
///
/// Everything is in *slots*: a buffer is a list of slots, each holding one *block* named (origin,
/// target). Sizes and addresses are bound when a program is posted, so one program serves every
/// call of the same algorithm and shape.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/collective.h"
#include "engine/schedule/op.h"
#include "engine/schedule/packed_list.h"
#include "engine/schedule/shape.h"
#include "engine/schedule/transfer_plan.h"

namespace ibcoll {

using OpList = PackedList<Op>;
using OpReader = PackedReader<Op>;
using StreamList = PackedList<Stream>;
using StreamReader = PackedReader<Stream>;
using BlockList = PackedList<Block>;
extern template class PackedList<Op>;
extern template class PackedList<Stream>;
extern template class PackedList<Block>;
extern template class PackedReader<Op>;
extern template class PackedReader<Stream>;
extern template class PackedReader<Block>;

/// How a stream of puts is divided. Operations are counted from its first one.
struct Strands {
  std::vector<uint32_t> of;    ///< by operation: its strand
  std::vector<uint32_t> ends;  ///< by strand: its last operation
  friend bool operator==(const Strands&, const Strands&) = default;
};

/// The strands of a stream of that lane. None where it is not of puts to several peers.
std::optional<Strands> divide_by_peer(const Stream& stream, const OpList& lane);

/// The piece with which a signal in a stream of `pieces` is sent: the first one that leaves no more
/// than `threshold` parts of kParts to come.
inline uint32_t signal_piece(const Op& op, uint32_t pieces) {
  const uint64_t left = uint64_t{op.threshold} * pieces / TransferPlan::kParts;
  return pieces - 1 - static_cast<uint32_t>(std::min<uint64_t>(left, pieces - 1));
}

/// What holds the steps of a paced algorithm back.
enum class Pacing : uint8_t {
  kFree,       ///< nothing but the data
  kGate,       ///< a server enters a step when all its ranks have sent the step before
  kToken,      ///< a server sends to another when all ranks of that have received their step before
  kGateToken,  ///< both: keeps links full and no port contended
};

/// What an algorithm can be told beside the shape. All ranks must pass the same.
struct AlgorithmOptions {
  Pacing pacing = Pacing::kGateToken;
  uint32_t window = 1;  ///< steps in flight, for algorithms that walk in steps; 0: no limit
  Rank root = 0;        ///< where the collective has one
  /// Reductions: combine in the order of ranks, in a way that depends on their number only
  /// (rank_order.h): for operators that do not commute, and to get the same bits whatever the
  /// layout, the root and the algorithm.
  bool ordered = false;
  /// Bcast algorithms that cut the block (AlgorithmSpec::cuts): into how many parts; 0: as few as
  /// they can use.
  uint32_t cut = 0;
  /// Bcast: ranks acknowledge, and the root ends when all hold all (algorithms/acks.h).
  bool acks = false;
  /// contention_free: what to carry out. Made for this collective, shape and root.
  std::shared_ptr<const TransferPlan> plan = {};
  /// Where the collective has one (has_graph()): it must know the ranks of the program's server.
  std::shared_ptr<const Graph> graph = {};
  friend bool operator==(const AlgorithmOptions&, const AlgorithmOptions&) = default;
};

/// What a program is beside its long lists.
struct ProgramFacts {
  Collective collective = Collective::kBarrier;
  std::string algorithm;
  Rank me = 0;
  Rank root = 0;  ///< where the collective has one
  /// Of (collective, algorithm, options, shape, format version): equal on all ranks that mean the
  /// same. It travels with messages, so that ranks that chose differently get an error.
  uint64_t hash = 0;
  /// Into how many slots each block is cut, on all ranks alike, so that parts of it may go
  /// different ways (CollectiveTraits::cuts). Slot s is part s % cut of block s / cut.
  uint32_t cut = 1;
  uint32_t steps = 0;      ///< one more than the largest step
  uint32_t last_part = 0;  ///< see TransferPlan
  /// Sends to ranks of its server and gets nothing from them.
  bool sends_locally_only = false;
  std::vector<Strands> strands;        ///< of those of the streams that have several
  std::shared_ptr<const Graph> graph;  ///< where the collective has one; null: no neighbours
};

/// The program of one rank. Immutable once built; shared by all calls that use it. What copies and
/// ends it is in program.cc, which is compiled for size.
struct RankProgram : ProgramFacts {
  RankProgram();
  RankProgram(const RankProgram& other);
  RankProgram(RankProgram&& other) noexcept;
  RankProgram& operator=(const RankProgram& other);
  RankProgram& operator=(RankProgram&& other) noexcept;
  ~RankProgram();

  std::array<OpList, kLanes> lanes;
  StreamList streams;  ///< ascending in (lane, first), not overlapping
  /// What each scratch slot holds. Each is written exactly once, then only combined into.
  BlockList scratch;

  const OpList& lane(Lane which) const { return lanes[static_cast<int>(which)]; }
  uint32_t send_slots(const Shape& shape) const {
    return ibcoll::send_slots(collective, shape, me, root, graph.get()) * cut;
  }
  uint32_t recv_slots(const Shape& shape) const {
    return ibcoll::recv_slots(collective, shape, me, root, graph.get()) * cut;
  }
  /// The block of a slot of one of the three buffers.
  Block block(Buffer buffer, uint32_t slot) const {
    if (buffer == Buffer::kScratch) return scratch[slot];
    const Block whole = buffer == Buffer::kSend
                            ? send_block(collective, me, root, slot / cut, graph.get())
                            : recv_block(collective, me, root, slot / cut, graph.get());
    return cut == 1 ? whole : part_of(collective, whole, slot % cut, cut);
  }
  /// Slots have places and lengths of their own, though blocks have one length: those of a
  /// broadcast are one block's, and follow from their numbers.
  bool has_uneven_slots() const { return cut > 1 && collective != Collective::kBcast; }
  /// Slots have places and lengths of their own, which receivers tell senders.
  bool tells_places() const {
    return is_unequal(collective) || has_graph(collective) || has_uneven_slots();
  }
  size_t size() const { return lanes[0].size() + lanes[1].size() + lanes[2].size(); }
  /// Bytes of memory it occupies.
  size_t memory_bytes() const;
};

/// The same program with those of its lists packed (PackedList) that have more than `longest`
/// entries.
std::shared_ptr<const RankProgram> pack_lists(std::shared_ptr<const RankProgram> program,
                                              size_t longest);

/// The rank of `server` that takes the exposures rank `from` addresses to that server, and passes
/// them on.
inline Rank gateway(const Shape& shape, Rank from, int server) {
  return shape.rank_at(server, shape.local_of(from) % shape.server_size(server));
}

/// Slots that a block may be cut into.
inline constexpr uint32_t kMaxCut = 1 << 20;

/// Bytes of a slot of a block that is cut into `cut`: whole elements. The last slots may have fewer
/// or none. Slots of some length begin at cache lines if the block does and elements allow it.
inline uint64_t cut_slot_bytes(uint64_t block_bytes, uint32_t cut, uint32_t element_bytes = 1) {
  constexpr uint64_t kLine = 64, kLong = 1024;
  const uint64_t elements = block_bytes / element_bytes;
  const uint64_t bytes = (elements + cut - 1) / cut * element_bytes;
  if (cut == 1 || bytes < kLong || kLine % element_bytes != 0) return bytes;
  return (bytes + kLine - 1) / kLine * kLine;
}

/// Where a slot begins in a buffer of blocks of that length that are cut.
inline uint64_t cut_offset(uint64_t block_bytes, uint32_t cut, uint64_t slot,
                           uint32_t element_bytes = 1) {
  return slot / cut * block_bytes +
         std::min(block_bytes, cut_slot_bytes(block_bytes, cut, element_bytes) * (slot % cut));
}

/// Bytes of `count` slots from `first` on of blocks that are cut.
inline uint64_t cut_bytes(uint64_t block_bytes, uint32_t cut, uint32_t first, uint32_t count,
                          uint32_t element_bytes = 1) {
  return cut_offset(block_bytes, cut, uint64_t{first} + count, element_bytes) -
         cut_offset(block_bytes, cut, first, element_bytes);
}

/// Where a piece of so many units (bytes, elements) begins; piece `pieces`: where they end.
inline uint64_t piece_begin(const RankProgram& program, uint64_t units, uint32_t piece,
                            uint32_t pieces) {
  if (program.last_part != 0 && pieces == 2 && piece == 1) {
    return units - units * program.last_part / TransferPlan::kParts;
  }
  return units * piece / pieces;
}

const char* to_string(Pacing pacing);
/// "free", "gate", "token", "gate_token" or "gate-token".
Result<Pacing> parse_pacing(std::string_view text);

}  // namespace ibcoll
