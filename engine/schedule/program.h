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
#include "engine/schedule/shape.h"
#include "engine/schedule/transfer_plan.h"

namespace ibcoll {

enum class Buffer : uint8_t { kNone, kSend, kRecv, kScratch };

/// `count` consecutive slots of a buffer.
struct Slice {
  Buffer buffer = Buffer::kNone;
  uint32_t first = 0;
  uint32_t count = 0;
};

/// The lanes of a program. Each lane starts its operations in order; between lanes only `Op::after`
/// orders.
enum class Lane : uint8_t {
  kSend,   ///< to other servers: put, signal, and the waits that hold them back
  kRecv,   ///< from other servers: expose, expect, wait, forward
  kLocal,  ///< inside the server: copy, reduce, put and expect between local ranks
};
inline constexpr int kLanes = 3;
inline constexpr std::array kEveryLane{Lane::kSend, Lane::kRecv, Lane::kLocal};

enum class OpKind : uint8_t {
  kCopy,    ///< dst <- src, both of this rank
  kReduce,  ///< dst <- dst (operator) src, slot by slot; Op::before: dst <- src (operator) dst
  kPut,     ///< dst of `peer` <- src. Between servers it is held until the peer has exposed
  kExpect,  ///< wait for the next put of `peer` (in the peer's order of puts to this rank); it
            ///< lands in dst. Op::combines: it is combined into dst
  kExpose,  ///< let rank `peer` (to_server: the ranks of server `peer`) write to this rank: carries
            ///< addresses
  kWaitExposed,  ///< until every rank of server `peer` has exposed to this server `threshold` times
  kForward,  ///< stay until `threshold` exposures to this server that came through this rank are
             ///< passed on
  kSignal,   ///< send a token to rank `peer`: no data, no exposure needed. In a stream it is sent
             ///< once, see signal_piece()
  kWait,     ///< wait for the next token of rank `peer`
  kGateSignal,  ///< tell the ranks of this server that this rank has passed one more gate
  kGateWait,    ///< until every rank of this server has passed `threshold` gates
};

/// One operation. Which fields mean something depends on `kind` (op_kinds.h); the others are zero.
struct Op {
  OpKind kind = OpKind::kCopy;
  Lane lane = Lane::kLocal;
  Buffer src_buffer = Buffer::kNone;
  /// kPut: a buffer of the peer; has_graph(): kNone, the place is what its expect says.
  Buffer dst_buffer = Buffer::kNone;
  bool to_server : 1 = false;  ///< kExpose: peer is a server
  /// kReduce, kExpect that combines: the data of dst and of src are the two parts of a node of the
  /// tree that all ordered reductions follow (rank_order.h), as Op::before says which is which.
  bool ordered : 1 = false;
  bool before : 1 = false;  ///< the same: what is combined into dst stands before it, not after it
  /// kExpect of a local rank: dst has been written, and what comes is combined into it.
  bool combines : 1 = false;
  /// kInRun: may be carried out before the operations of its lane that stand before it, back to the
  /// nearest kFirstOfRun.
  enum class Relaxed : uint8_t { kNo, kFirstOfRun, kInRun } relaxed = Relaxed::kNo;
  uint8_t exposure =
      0;  ///< kPut, kExpect: which exposure of the receiver (to this sender) it belongs to, from 0
  int32_t peer = -1;       ///< a rank, or a server where to_server or kWaitExposed
  uint32_t src_first = 0;  ///< first slot read
  uint32_t dst_first = 0;  ///< first slot written
  uint32_t count = 0;      ///< slots
  uint32_t threshold = 0;  ///< kWaitExposed, kForward, kGateWait; kSignal: see signal_piece()
  uint32_t step = 0;  ///< the algorithm's step; the same number means the same step on all ranks
  /// How many operations of each lane (counted from its beginning) must be *complete* before this
  /// one starts; a put is complete when its source may be overwritten. Order of start inside its
  /// own lane comes on top.
  std::array<uint32_t, kLanes> after{};

  Slice src() const { return {src_buffer, src_first, count}; }
  Slice dst() const { return {dst_buffer, dst_first, count}; }
};
static_assert(sizeof(Op) == 44, "programs of ten thousand ranks stay within two megabytes");

/// A loop over consecutive operations of one lane: they are carried out for piece 0 of every slot,
/// then for piece 1, and so on. The number of pieces is bound when the program is posted. This is
/// how a relay passes data on while it arrives. A put in a stream is matched by an expect in a
/// stream: each piece is a message of its own. Piece p of an operation whose `after` ends in a
/// stream of another (or its own) lane needs that stream's operations up to there for pieces 0..p;
/// operations outside streams need all pieces.
///
/// A stream of puts may go in *strands*: those to one peer are one, and while one can't go on
/// others may overtake it, so that a peer that is late holds up nobody else. What comes after such
/// a stream, or a part of it, comes after all that stands before.
struct Stream {
  static constexpr uint32_t kInOrder = ~uint32_t{0};

  Lane lane = Lane::kSend;
  bool once =
      false;  ///< not cut into pieces. Only of strands; then nothing comes after a part of it
  uint32_t first = 0;  ///< index in its lane
  uint32_t count = 0;
  uint32_t strands = kInOrder;  ///< index in RankProgram::strands

  bool in_strands() const { return strands != kInOrder; }
};
static_assert(sizeof(Stream) == 16, "rings of ten thousand ranks have a stream a step");

/// How a stream of puts is divided. Operations are counted from its first one.
struct Strands {
  std::vector<uint32_t> of;    ///< by operation: its strand
  std::vector<uint32_t> ends;  ///< by strand: its last operation
  friend bool operator==(const Strands&, const Strands&) = default;
};

/// The strands of a stream of that lane. None where it is not of puts to several peers.
std::optional<Strands> divide_by_peer(const Stream& stream, const std::vector<Op>& lane);

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

/// The program of one rank. Immutable once built; shared by all calls that use it.
struct RankProgram {
  Collective collective = Collective::kBarrier;
  std::string algorithm;
  Rank me = 0;
  Rank root = 0;  ///< where the collective has one
  /// Of (collective, algorithm, options, shape, format version): equal on all ranks that mean the
  /// same. It travels with messages, so that ranks that chose differently get an error.
  uint64_t hash = 0;
  std::array<std::vector<Op>, kLanes> lanes;
  std::vector<Stream> streams;   ///< ascending in (lane, first), not overlapping
  std::vector<Strands> strands;  ///< of those of them that have several
  /// What each scratch slot holds. Each is written exactly once, then only combined into.
  std::vector<Block> scratch;
  /// Into how many slots each block is cut, on all ranks alike, so that parts of it may go
  /// different ways (CollectiveTraits::cuts). Slot s is part s % cut of block s / cut.
  uint32_t cut = 1;
  uint32_t steps = 0;      ///< one more than the largest step
  uint32_t last_part = 0;  ///< see TransferPlan
  /// Sends to ranks of its server and gets nothing from them.
  bool sends_locally_only = false;
  std::shared_ptr<const Graph> graph;  ///< where the collective has one; null: no neighbours

  const std::vector<Op>& lane(Lane which) const { return lanes[static_cast<int>(which)]; }
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
  size_t size() const { return lanes[0].size() + lanes[1].size() + lanes[2].size(); }
  /// Bytes of memory it occupies.
  size_t memory_bytes() const;
};

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

const char* to_string(OpKind kind);
const char* to_string(Lane lane);
const char* to_string(Buffer buffer);
const char* to_string(Pacing pacing);
/// "free", "gate", "token", "gate_token" or "gate-token".
Result<Pacing> parse_pacing(std::string_view text);

}  // namespace ibcoll
