#include "engine/schedule/program.h"

#include <algorithm>

namespace ibcoll {

size_t RankProgram::memory_bytes() const {
  size_t bytes = sizeof *this + streams.capacity() * sizeof(Stream) +
                 scratch.capacity() * sizeof(Block) + algorithm.capacity();
  for (const auto& lane : lanes) bytes += lane.capacity() * sizeof(Op);
  return bytes;
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
