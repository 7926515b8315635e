#include "engine/schedule/program.h"

#include <algorithm>
#include <unordered_map>

namespace ibcoll {

std::optional<Strands> divide_by_peer(const Stream& stream, const std::vector<Op>& lane) {
  std::unordered_map<Rank, uint32_t> by_peer;
  Strands strands;
  for (uint32_t i = 0; i < stream.count; ++i) {
    const Op& op = lane[stream.first + i];
    if (op.kind != OpKind::kPut) return std::nullopt;
    const auto fresh = static_cast<uint32_t>(strands.ends.size());
    const uint32_t strand = by_peer.emplace(op.peer, fresh).first->second;
    if (strand == fresh) strands.ends.push_back(0);
    strands.ends[strand] = i;
    strands.of.push_back(strand);
  }
  if (strands.ends.size() < 2) return std::nullopt;
  strands.of.shrink_to_fit();
  strands.ends.shrink_to_fit();
  return strands;
}

size_t RankProgram::memory_bytes() const {
  size_t bytes = sizeof *this + streams.capacity() * sizeof(Stream) +
                 scratch.capacity() * sizeof(Block) + algorithm.capacity();
  for (const Strands& each : strands) {
    bytes += sizeof each + (each.of.capacity() + each.ends.capacity()) * sizeof(uint32_t);
  }
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
