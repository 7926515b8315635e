/// What each operation does with memory and with the transports; lane_runner.cc has their order.
#include <algorithm>

#include "engine/base/copy.h"
#include "engine/base/quote.h"
#include "engine/execute/lane_runner.h"
#include "engine/execute/waits.h"

namespace ibcoll {

/// An operator of the program's could not combine. It may do better in other groups.
LaneRunner::Outcome LaneRunner::end_by_operator(const Op& op, const char* failure) {
  const Rank me = job_rank(call_.group->me);
  services_.ends.request(
      *call_.group,
      {me, ErrorCode::kCancelled,
       fmt::format("rank {}: the operator has failed: {} (in {} ({}), call {}, step {})", me,
                   printable(failure), to_string(call_.program->collective),
                   call_.program->algorithm, call_.key.sequence, op.step)});
  return Outcome::kBlocked;
}

LaneRunner::Outcome LaneRunner::reduce(LaneState& lane, const Op& op, Part part) {
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.dst_buffer, op.dst_first, op.count);
  const size_t first = part_begin(part, length) + lane.progress, last = part_end(part, length);
  size_t piece = last - first;
  if (piece > kPieceBytes) piece = std::max<size_t>(kPieceBytes / binding.grain, 1) * binding.grain;
  const Reduction& reduction = *binding.reduction;
  const char* const failure = (op.before ? reduction.combine_reversed : reduction.combine)(
      binding.address(op.dst_buffer, op.dst_first) + first,
      binding.address(op.src_buffer, op.src_first) + first, piece, reduction.context);
  if (failure != nullptr) [[unlikely]]
    return end_by_operator(op, failure);
  if (first + piece < last) {
    lane.progress += piece;
    return Outcome::kMoved;
  }
  lane.progress = 0;
  return Outcome::kDone;
}

/// Slots that follow each other in number may lie anywhere.
void LaneRunner::copy_scattered(const Op& op, Part part) {
  const Binding& binding = call_.binding;
  for (uint32_t i = 0; i < op.count; ++i) {
    const size_t length = binding.length(op.src_buffer, op.src_first + i, 1);
    const size_t begin = part_begin(part, length);
    if (part_end(part, length) == begin) continue;
    copy_plain(binding.address(op.dst_buffer, op.dst_first + i) + begin,
               binding.address(op.src_buffer, op.src_first + i) + begin,
               part_end(part, length) - begin);
  }
}

LaneRunner::Outcome LaneRunner::copy(LaneState& lane, const Op& op, Part part) {
  const Binding& binding = call_.binding;
  if (call_.strided) [[unlikely]]
    return copy_between_views(lane, op, part);
  if (binding.unequal && op.count != 1) {
    copy_scattered(op, part);
    return Outcome::kDone;
  }
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  const size_t begin = part_begin(part, length) + lane.progress;
  const size_t end = part_end(part, length);
  if (begin == end) return Outcome::kDone;  // progress is never all of it
  const size_t piece = std::min(kPieceBytes, end - begin);
  std::byte* target = binding.address(op.dst_buffer, op.dst_first) + begin;
  const std::byte* source = binding.address(op.src_buffer, op.src_first) + begin;
  if (target == source) return Outcome::kDone;  // as above
  if (call_.streaming) {
    copy_streaming(target, source, piece);
  } else {
    copy_plain(target, source, piece);
  }
  if (begin + piece < end) {
    lane.progress += piece;
    return Outcome::kMoved;
  }
  lane.progress = 0;
  return Outcome::kDone;
}

/// What becomes of an operation that has made an offer.
[[gnu::always_inline]] inline LaneRunner::Outcome LaneRunner::note_offer(
    LaneState& lane, Offer offer, Rank peer, uint32_t ticket, uint32_t position, Part part) {
  switch (offer) {
    case Offer::kNoRoom:
      return Outcome::kBlocked;
    case Offer::kPending:
      lane.pending.push({lane.complete_before(position), peer, true, ticket, position, part.piece});
      return Outcome::kDone;
    case Offer::kNoMemory:
      services_.end.give_up({ErrorCode::kNoMemory, fmt::format("{}, for messages to rank {} in {}",
                                                               services_.local.trouble(), peer,
                                                               describe(call_, services_.local))});
      return Outcome::kBlocked;
    case Offer::kDone:
      break;
  }
  return Outcome::kDone;
}

LaneRunner::Outcome LaneRunner::put_local(LaneState& lane, const Op& op, uint32_t position,
                                          Part part, bool token) {
  const Rank peer = job_rank(op.peer);
  if (call_.group->has_lost(peer)) [[unlikely]]
    return Outcome::kDone;
  MessageKey key = call_.key;
  key.token = token;
  const std::byte* source = nullptr;
  size_t bytes = 0;
  if (!token) {
    if (call_.strided) [[unlikely]]
      return put_local_strided(lane, op, position, part);
    const size_t length = call_.binding.length(op.src_buffer, op.src_first, op.count);
    source = call_.binding.address(op.src_buffer, op.src_first) + part_begin(part, length);
    bytes = part_end(part, length) - part_begin(part, length);
  }
  uint32_t ticket = 0;
  const Offer offer = services_.local.offer(peer, key, source, bytes, ticket);
  return note_offer(lane, offer, peer, ticket, position, part);
}

[[gnu::noinline]] LaneRunner::Outcome LaneRunner::put_local_strided(LaneState& lane, const Op& op,
                                                                    uint32_t position, Part part) {
  const Rank peer = job_rank(op.peer);
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  const size_t begin = part_begin(part, length), bytes = part_end(part, length) - begin;
  const StridedView source = binding.view(op.src_buffer, op.src_first, op.count).from(begin);
  const StridedBuffer* const strided = binding[op.src_buffer].strided;
  LocalTransport& local = services_.local;
  uint32_t ticket = 0;
  const Offer offer =
      strided == nullptr
          ? local.offer(peer, call_.key, source.base + source.begin, bytes, ticket)
          : local.offer_strided(peer, call_.key, strided->memory, source, bytes, ticket);
  return note_offer(lane, offer, peer, ticket, position, part);
}

LaneRunner::Outcome LaneRunner::put_network(LaneState& lane, const Op& op, uint32_t position,
                                            Part part) {
  const Rank peer = job_rank(op.peer);
  PeerState& state = call_.remote.peers[peer];
  if (state.exposures <= op.exposure) return Outcome::kBlocked;
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  RegionPlace place = op.dst_buffer == Buffer::kRecv ? state.recv : state.scratch;
  if (binding.unequal) {
    if (state.landings.empty()) {
      services_.disagreements.mismatch(
          call_, peer,
          fmt::format("rank {} expects fewer blocks than rank {} sends it", peer,
                      job_rank(call_.group->me)));
      return Outcome::kBlocked;
    }
    const NextLanding& landing = call_.remote.landings[state.landings.first];
    if (landing.bytes != length) {
      services_.disagreements.mismatch(
          call_, peer,
          fmt::format("rank {} expects {} bytes where rank {} sends {}", peer, landing.bytes,
                      job_rank(call_.group->me), length));
      return Outcome::kBlocked;
    }
    place = landing.place;
  } else {
    place.offset += binding.offset(op.dst_first);
  }
  RemoteAddress target = services_.mailroom.find(peer, place);
  // The region's key comes with another call's exposure, which this one has overtaken.
  if (target.address == PeerRegions::kUnknown) [[unlikely]]
    return Outcome::kBlocked;
  target.address += part_begin(part, length);
  if (call_.strided) [[unlikely]] {
    // What has begun so ends so, whatever has been packed since.
    const bool empty = part_begin(part, length) == part_end(part, length);
    if (state.put_bytes != 0 || (!empty && is_gathered(op)))
      return put_gathered(lane, op, position, part, target);
    if (!put_in_image(op, part_begin(part, length), part_end(part, length))) return Outcome::kMoved;
  }
  if (!services_.network->put(
          peer, binding.address(op.src_buffer, op.src_first) + part_begin(part, length),
          call_.remote.regions_of(op.src_buffer).of(op.src_first).key, target,
          part_end(part, length) - part_begin(part, length), state.cell)) {
    return Outcome::kBlocked;
  }
  if (binding.unequal && part.last()) state.landings.pop(call_.remote.landings);
  note_put(lane, peer, position, part);
  return Outcome::kDone;
}

LaneRunner::Outcome LaneRunner::put_mailed(const Op& op, Part part) {
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  const size_t begin = part_begin(part, length);
  if (binding[op.src_buffer].strided != nullptr) [[unlikely]] {
    const StridedView source = binding.view(op.src_buffer, op.src_first, op.count).from(begin);
    return services_.mailroom.send_data(call_, op.peer, source, part_end(part, length) - begin)
               ? Outcome::kDone
               : Outcome::kBlocked;
  }
  return services_.mailroom.send_data(
             call_, op.peer,
             {binding.address(op.src_buffer, op.src_first) + begin, part_end(part, length) - begin})
             ? Outcome::kDone
             : Outcome::kBlocked;
}

LaneRunner::Outcome LaneRunner::take_mailed(const Op& op, Part part) {
  Chain& queue = call_.remote.peers[job_rank(op.peer)].mailed;
  if (queue.empty()) return Outcome::kBlocked;
  const MailedPut put = call_.remote.mailed[queue.first];
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.dst_buffer, op.dst_first, op.count);
  const size_t begin = part_begin(part, length), bytes = part_end(part, length) - begin;
  if (put.bytes != bytes) {
    services_.disagreements.mismatch(call_, job_rank(op.peer),
                                     fmt::format("rank {} sends {} bytes where {} are expected",
                                                 job_rank(op.peer), put.bytes, bytes));
    return Outcome::kBlocked;
  }
  std::byte* const data = call_.remote.mailed_data.data() + put.offset;
  std::byte* target = nullptr;
  if (binding[op.dst_buffer].strided != nullptr) [[unlikely]] {
    copy_strided(binding.view(op.dst_buffer, op.dst_first, op.count).from(begin), {data}, bytes);
  } else {
    target = binding.address(op.dst_buffer, op.dst_first) + begin;
    copy_plain(target, data, bytes);
  }
  queue.pop(call_.remote.mailed);
  took(Way::kEager, target, bytes);
  return Outcome::kDone;
}

/// Takes a message, with `how` to combine it with what is in its place.
inline Pull LaneRunner::take(LaneState& lane, const Op& op, Part part, bool token, Combining* how) {
  MessageKey key = call_.key;
  key.token = token;
  std::byte* target = nullptr;
  size_t bytes = 0;
  if (!token) {
    if (call_.strided) [[unlikely]]
      return take_strided(lane, op, part);
    const size_t length = call_.binding.length(op.dst_buffer, op.dst_first, op.count);
    target = call_.binding.address(op.dst_buffer, op.dst_first) + part_begin(part, length);
    bytes = part_end(part, length) - part_begin(part, length);
  }
  LocalTransport& local = services_.local;
  return how != nullptr
             ? local.pull_combined(job_rank(op.peer), key, target, bytes, *how, lane.progress)
             : local.pull(job_rank(op.peer), key, target, bytes, call_.streaming, lane.progress);
}

/// Of a call that combines nothing.
[[gnu::noinline]] Pull LaneRunner::take_strided(LaneState& lane, const Op& op, Part part) {
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.dst_buffer, op.dst_first, op.count);
  const size_t begin = part_begin(part, length), bytes = part_end(part, length) - begin;
  const StridedView target = binding.view(op.dst_buffer, op.dst_first, op.count).from(begin);
  LocalTransport& local = services_.local;
  const Rank peer = job_rank(op.peer);
  return binding[op.dst_buffer].strided != nullptr
             ? local.pull_strided(peer, call_.key, target, bytes, lane.progress)
             : local.pull(peer, call_.key, target.base + target.begin, bytes, call_.streaming,
                          lane.progress);
}

LaneRunner::Outcome LaneRunner::pull(LaneState& lane, const Op& op, Part part, bool token) {
  Pull result;
  if (!op.combines) [[likely]] {
    result = take(lane, op, part, token, nullptr);
  } else {
    const Reduction& reduction = *call_.binding.reduction;
    Combining how{op.before ? reduction.combine_reversed : reduction.combine, reduction.context,
                  reduction.element_bytes};
    result = take(lane, op, part, token, &how);
    if (how.failure != nullptr) [[unlikely]]
      return end_by_operator(op, how.failure);
  }
  switch (result) {
    case Pull::kNotYet:
      return Outcome::kBlocked;
    case Pull::kPartial:
      return Outcome::kMoved;
    case Pull::kDone:
      return Outcome::kDone;
    case Pull::kMismatch:
      services_.disagreements.mismatch(call_, job_rank(op.peer), services_.local.trouble());
      return Outcome::kBlocked;
    case Pull::kFailed:
      services_.end.abort({job_rank(op.peer), ErrorCode::kRankDied, services_.local.trouble()});
      return Outcome::kBlocked;
  }
  return Outcome::kBlocked;
}

LaneRunner::Outcome LaneRunner::expose(LaneState& lane, const Op& op) {
  if (call_.binding.eager) return Outcome::kDone;  // eager data wait for no exposure
  if (!services_.mailroom.send_exposure(call_, op, lane.progress)) return Outcome::kBlocked;
  return lane.progress == 0 ? Outcome::kDone : Outcome::kMoved;
}

bool LaneRunner::all_exposed(const Op& op) {
  const auto members = call_.group->shape.members(op.peer);
  return std::all_of(members.begin(), members.end(), [&](Rank rank) {
    return call_.remote.peers[job_rank(rank)].exposures >= op.threshold;
  });
}

bool LaneRunner::open_gates() {
  GroupState& group = *call_.group;
  if (group.gate_slot) return true;
  std::vector<Rank> members;
  for (const Rank rank : group.shape.members(group.shape.server_of(group.me)))
    members.push_back(job_rank(rank));
  Result<uint32_t> slot = services_.local.open_gates(group.key, members);
  if (!slot) {
    services_.end.give_up(slot.error());
    return false;
  }
  group.gate_slot = *slot;
  return true;
}

bool LaneRunner::gates_passed(const Op& op) {
  if (!open_gates()) return false;
  const GroupState& group = *call_.group;
  const auto members = group.shape.members(group.shape.server_of(group.me));
  return std::all_of(members.begin(), members.end(), [&](Rank rank) {
    return services_.local.gate_passed(job_rank(rank), *group.gate_slot, call_.key.sequence,
                                       op.threshold);
  });
}

}  // namespace ibcoll
