#include "engine/core/lengths_phase.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/core/group.h"

namespace ibcoll {

Status LengthsPhase::take(ScratchPool& scratch, const Shape& shape, const RankProgram& program) {
  const size_t slots =
      program.send_slots(shape) + program.recv_slots(shape) + program.scratch.size();
  IBCOLL_ASSIGN(memory_, scratch.take(std::max<size_t>(1, slots) * sizeof(uint64_t)));
  return {};
}

Binding LengthsPhase::bind(const Shape& shape, const CallPlan& plan, const Binding& data) {
  const RankProgram& program = *plan.program;
  const size_t sends = program.send_slots(shape), receives = program.recv_slots(shape);
  if (sends > 0) std::memcpy(memory_, data[Buffer::kSend].bytes, sends * sizeof(uint64_t));
  Binding lengths;
  lengths.block_bytes = sizeof(uint64_t);
  lengths.pieces = 1;
  lengths.meaning = data.meaning ^ 0x6c656e67u;  // never to be taken for the data
  lengths.told = data.told;
  lengths.time_limit_ns = data.time_limit_ns;
  lengths.deadline_ns = data.deadline_ns;
  lengths.one_way = data.one_way;
  lengths.eager = static_cast<int64_t>(lengths.block_bytes) <= plan.eager_block_bytes;
  lengths[Buffer::kSend].base = memory_;
  lengths[Buffer::kRecv].base = memory_ + sends * sizeof(uint64_t);
  lengths[Buffer::kScratch].base = memory_ + (sends + receives) * sizeof(uint64_t);
  if (has_graph(program.collective))
    place(lengths, std::max({sends, receives, program.scratch.size()}));
  return lengths;
}

/// Of neighbours each slot has its place: see CallSlots::bind_neighbors().
void LengthsPhase::place(Binding& lengths, size_t slots) {
  bytes_.assign(slots, sizeof(uint64_t));
  offsets_.resize(slots);
  std::exclusive_scan(bytes_.begin(), bytes_.end(), offsets_.begin(), uint64_t{0});
  lengths.unequal = true;
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv, Buffer::kScratch}) {
    lengths[buffer].offsets = offsets_.data();
    lengths[buffer].bytes = bytes_.data();
  }
}

Result<std::span<const uint64_t>> LengthsPhase::end(Group& group, const RankProgram& program,
                                                    const uint64_t* expected) {
  const size_t receives = program.recv_slots(group.shape());
  const auto* received =
      reinterpret_cast<const uint64_t*>(memory_) + program.send_slots(group.shape());
  for (size_t i = 0; i < receives; ++i) {
    if (received[i] == expected[i]) continue;
    const Rank origin = program.block(Buffer::kRecv, static_cast<uint32_t>(i)).origin;
    const Rank culprit = group.state().to_job[origin];
    const std::string text = fmt::format("rank {} sends {} bytes where rank {} expects {} ({}, {})",
                                         culprit, received[i], group.rank_in_job(), expected[i],
                                         to_string(program.collective), program.algorithm);
    group.services().executor.abort({culprit, ErrorCode::kMismatch, text});
    return fail(ErrorCode::kMismatch, "{}", text);
  }
  known_ = true;
  return std::span<const uint64_t>(received + receives, program.scratch.size());
}

void LengthsPhase::release(ScratchPool& scratch) {
  if (memory_ != nullptr) scratch.put(memory_);
  memory_ = nullptr;
  known_ = false;
}

}  // namespace ibcoll
