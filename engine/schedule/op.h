#pragma once
/// One operation of a rank's program, and loops over several.

#include <array>
#include <cstdint>

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

  friend bool operator==(const Op&, const Op&) = default;

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

  friend bool operator==(const Stream&, const Stream&) = default;

  bool in_strands() const { return strands != kInOrder; }
};
static_assert(sizeof(Stream) == 16, "rings of ten thousand ranks have a stream a step");

const char* to_string(OpKind kind);
const char* to_string(Lane lane);
const char* to_string(Buffer buffer);

}  // namespace ibcoll
