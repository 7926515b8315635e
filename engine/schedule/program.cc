#include "engine/schedule/program.h"

#include <algorithm>

namespace ibcoll {

uint32_t send_slots(Collective collective, const Shape& shape) {
  switch (collective) {
    case Collective::kAlltoall:
    case Collective::kAlltoallv:
      return static_cast<uint32_t>(shape.ranks());
    case Collective::kAllgather:
      return 1;
    case Collective::kBarrier:
      return 0;
  }
  return 0;
}

uint32_t recv_slots(Collective collective, const Shape& shape) {
  return collective == Collective::kBarrier ? 0 : static_cast<uint32_t>(shape.ranks());
}

Block send_block(Collective collective, Rank me, uint32_t slot) {
  return {me, collective == Collective::kAllgather ? Block::kEveryone : static_cast<Rank>(slot)};
}

Block recv_block(Collective collective, Rank me, uint32_t slot) {
  return {static_cast<Rank>(slot), collective == Collective::kAllgather ? Block::kEveryone : me};
}

size_t RankProgram::memory_bytes() const {
  size_t bytes = sizeof *this + streams.capacity() * sizeof(Stream) +
                 scratch.capacity() * sizeof(Block) + algorithm.capacity();
  for (const auto& lane : lanes) bytes += lane.capacity() * sizeof(Op);
  return bytes;
}

const char* to_string(Collective collective) {
  switch (collective) {
    case Collective::kAlltoall:
      return "alltoall";
    case Collective::kAlltoallv:
      return "alltoallv";
    case Collective::kAllgather:
      return "allgather";
    case Collective::kBarrier:
      return "barrier";
  }
  return "?";
}

const char* to_string(OpKind kind) {
  switch (kind) {
    case OpKind::kCopy:
      return "copy";
    case OpKind::kReduce:
      return "reduce";
    case OpKind::kPut:
      return "put";
    case OpKind::kExpect:
      return "expect";
    case OpKind::kExpose:
      return "expose";
    case OpKind::kWaitExposed:
      return "wait_exposed";
    case OpKind::kForward:
      return "forward";
    case OpKind::kSignal:
      return "signal";
    case OpKind::kWait:
      return "wait";
    case OpKind::kGateSignal:
      return "gate_signal";
    case OpKind::kGateWait:
      return "gate_wait";
  }
  return "?";
}

const char* to_string(Lane lane) {
  switch (lane) {
    case Lane::kSend:
      return "send";
    case Lane::kRecv:
      return "recv";
    case Lane::kLocal:
      return "local";
  }
  return "?";
}

const char* to_string(Buffer buffer) {
  switch (buffer) {
    case Buffer::kNone:
      return "none";
    case Buffer::kSend:
      return "send";
    case Buffer::kRecv:
      return "recv";
    case Buffer::kScratch:
      return "scratch";
  }
  return "?";
}

const char* to_string(Pacing pacing) {
  switch (pacing) {
    case Pacing::kFree:
      return "free";
    case Pacing::kGate:
      return "gate";
    case Pacing::kToken:
      return "token";
    case Pacing::kGateToken:
      return "gate_token";
  }
  return "?";
}

Result<Collective> parse_collective(std::string_view text) {
  for (const Collective collective : {Collective::kAlltoall, Collective::kAlltoallv,
                                      Collective::kAllgather, Collective::kBarrier}) {
    if (text == to_string(collective)) return collective;
  }
  return fail(ErrorCode::kInvalidArgument,
              "unknown collective '{}': one of alltoall, alltoallv, allgather, barrier", text);
}

Result<Pacing> parse_pacing(std::string_view text) {
  std::string name(text);
  std::replace(name.begin(), name.end(), '-', '_');
  for (const Pacing pacing : {Pacing::kFree, Pacing::kGate, Pacing::kToken, Pacing::kGateToken}) {
    if (name == to_string(pacing)) return pacing;
  }
  return fail(ErrorCode::kInvalidArgument,
              "unknown pacing '{}': one of free, gate, token, gate_token", text);
}

}  // namespace ibcoll
