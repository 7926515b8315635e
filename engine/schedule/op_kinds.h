#pragma once
/// What each kind of operation means: one table, for all who build, check, describe, write, read
/// and explain operations.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "engine/schedule/program.h"

namespace ibcoll {

/// Lanes in which an operation may stand; the builder takes the first of them.
class Lanes {
 public:
  constexpr Lanes() = default;
  constexpr Lanes(std::initializer_list<Lane> lanes) : first_(*lanes.begin()) {
    for (const Lane lane : lanes) bits_ |= bit(lane);
  }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool contains(Lane lane) const { return (bits_ & bit(lane)) != 0; }
  constexpr Lane first() const { return first_; }

 private:
  static constexpr uint8_t bit(Lane lane) {
    return static_cast<uint8_t>(1 << static_cast<int>(lane));
  }
  Lane first_ = Lane::kSend;
  uint8_t bits_ = 0;
};

/// What a kind of operation means, and which fields of an Op it uses beside kind, lane, step and
/// after.
struct OpMeaning {
  enum class Peer : uint8_t {
    kNone,
    kRank,
    kServer,
    kRankOrServer,  ///< a server where Op::to_server
  };
  enum class Writes : uint8_t {
    kNone,
    kOwn,    ///< dst, of this rank
    kPeers,  ///< dst, of the peer
  };

  OpKind kind;
  const char* name;  ///< in files
  /// What describe() says, with the fields it puts into it.
  const char* sentence;
  /// What the operation waits for beside its own rank, to be put behind "waits" or, where there is
  /// a peer, "waits for rank 3"; empty: nothing.
  const char* awaits = "";
  Lanes inside = {};   ///< if the peer is of this server, or there is none
  Lanes between = {};  ///< if the peer is another server, or of one
  Peer peer = Peer::kNone;
  bool reads = false;  ///< src
  Writes writes = Writes::kNone;
  bool exposure = false, threshold = false, combines = false;  ///< uses that field
  bool ordered = false;   ///< uses Op::ordered and Op::before: where there is `combines`, with that
  bool relaxed = false;   ///< may be in a relaxed run: it holds nothing back but itself
  bool streamed = false;  ///< may be in a stream
};

/// By OpKind.
inline constexpr auto kOpMeanings = std::to_array<OpMeaning>({
    {.kind = OpKind::kCopy,
     .name = "copy",
     .sentence = "copy {src} to {dst}",
     .inside = {Lane::kLocal},
     .reads = true,
     .writes = OpMeaning::Writes::kOwn,
     .relaxed = true,
     .streamed = true},
    {.kind = OpKind::kReduce,
     .name = "reduce",
     .sentence = "reduce {src} into {dst}{order}",
     .inside = {Lane::kLocal},
     .reads = true,
     .writes = OpMeaning::Writes::kOwn,
     .ordered = true,
     .relaxed = true,
     .streamed = true},
    {.kind = OpKind::kPut,
     .name = "put",
     .sentence = "put {src} to {peer} at {dst}{exposure}",
     .awaits = "to be ready to receive",
     .inside = {Lane::kLocal},
     .between = {Lane::kSend},
     .peer = OpMeaning::Peer::kRank,
     .reads = true,
     .writes = OpMeaning::Writes::kPeers,
     .exposure = true,
     .relaxed = true,
     .streamed = true},
    {.kind = OpKind::kExpect,
     .name = "expect",
     .sentence = "expect{into} {dst}{order} from {peer}{exposure}",
     .awaits = "to send its data",
     .inside = {Lane::kLocal},
     .between = {Lane::kRecv},
     .peer = OpMeaning::Peer::kRank,
     .writes = OpMeaning::Writes::kOwn,
     .exposure = true,
     .combines = true,
     .ordered = true,
     .relaxed = true,
     .streamed = true},
    {.kind = OpKind::kExpose,
     .name = "expose",
     .sentence = "expose to {peer}",
     .between = {Lane::kRecv},
     .peer = OpMeaning::Peer::kRankOrServer},
    {.kind = OpKind::kWaitExposed,
     .name = "wait_exposed",
     .sentence = "wait until {peer} has exposed {threshold}x",
     .awaits = "to be ready to receive",
     .between = {Lane::kSend, Lane::kRecv, Lane::kLocal},
     .peer = OpMeaning::Peer::kServer,
     .threshold = true},
    {.kind = OpKind::kForward,
     .name = "forward",
     .sentence = "forward {threshold} exposures",
     .awaits = "for exposures to pass on",
     .inside = {Lane::kRecv},
     .threshold = true},
    {.kind = OpKind::kSignal,
     .name = "signal",
     .sentence = "signal {peer}{left}",
     .awaits = "to be ready to receive",
     .inside = {Lane::kLocal},
     .between = {Lane::kSend, Lane::kRecv},
     .peer = OpMeaning::Peer::kRank,
     .threshold = true,
     .streamed = true},
    {.kind = OpKind::kWait,
     .name = "wait",
     .sentence = "wait for {peer}",
     .awaits = "to send a token",
     .inside = {Lane::kLocal, Lane::kSend, Lane::kRecv},
     .between = {Lane::kRecv, Lane::kSend, Lane::kLocal},
     .peer = OpMeaning::Peer::kRank},
    {.kind = OpKind::kGateSignal,
     .name = "gate_signal",
     .sentence = "pass a gate",
     .inside = {Lane::kSend, Lane::kRecv, Lane::kLocal}},
    {.kind = OpKind::kGateWait,
     .name = "gate_wait",
     .sentence = "wait for gate {threshold} of all local ranks",
     .awaits = "to pass a gate",
     .inside = {Lane::kSend, Lane::kRecv, Lane::kLocal},
     .threshold = true},
});
inline constexpr size_t kOpKinds = kOpMeanings.size();

constexpr const OpMeaning& meaning(OpKind kind) { return kOpMeanings[static_cast<size_t>(kind)]; }

/// Op::peer is a server.
inline bool addresses_server(const Op& op) {
  return op.to_server || meaning(op.kind).peer == OpMeaning::Peer::kServer;
}

/// The rank itself carries the data to where it belongs; else they come from or go to another
/// server.
inline bool copies(const Op& op) {
  return op.lane == Lane::kLocal && meaning(op.kind).writes == OpMeaning::Writes::kOwn;
}

/// It stands in the local lane and goes on when another rank of the server has done its part.
inline bool waits_locally(const Op& op) {
  return op.lane == Lane::kLocal &&
         (op.kind == OpKind::kExpect || op.kind == OpKind::kWait || op.kind == OpKind::kGateWait);
}

}  // namespace ibcoll
