#include "engine/schedule/program.h"

#include <algorithm>
#include <unordered_map>

namespace ibcoll {

std::optional<Strands> divide_by_peer(const Stream& stream, const OpList& lane) {
  std::unordered_map<Rank, uint32_t> by_peer;
  const OpReader ops(lane);
  Strands strands;
  for (uint32_t i = 0; i < stream.count; ++i) {
    const Op& op = ops[stream.first + i];
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

RankProgram::RankProgram() = default;
RankProgram::RankProgram(const RankProgram& other) = default;
RankProgram::RankProgram(RankProgram&& other) noexcept = default;
RankProgram& RankProgram::operator=(const RankProgram& other) = default;
RankProgram& RankProgram::operator=(RankProgram&& other) noexcept = default;
RankProgram::~RankProgram() = default;

size_t RankProgram::memory_bytes() const {
  size_t bytes =
      sizeof *this + streams.memory_bytes() + scratch.memory_bytes() + algorithm.capacity();
  for (const Strands& each : strands) {
    bytes += sizeof each + (each.of.capacity() + each.ends.capacity()) * sizeof(uint32_t);
  }
  for (const OpList& lane : lanes) bytes += lane.memory_bytes();
  return bytes;
}

std::shared_ptr<const RankProgram> pack_lists(std::shared_ptr<const RankProgram> program,
                                              size_t longest) {
  const auto is_long = [&](const auto& list) { return !list.is_packed() && list.size() > longest; };
  bool any = is_long(program->streams) || is_long(program->scratch);
  for (const OpList& lane : program->lanes) any |= is_long(lane);
  if (!any) return program;
  auto packed = std::make_shared<RankProgram>();
  static_cast<ProgramFacts&>(*packed) = *program;
  // Long lists are never there twice as they are.
  const auto take = [&](const auto& from, auto& to) { to = is_long(from) ? from.packed() : from; };
  for (int lane = 0; lane < kLanes; ++lane) take(program->lanes[lane], packed->lanes[lane]);
  take(program->streams, packed->streams);
  take(program->scratch, packed->scratch);
  return packed;
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
