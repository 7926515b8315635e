#include "engine/execute/lane_operations.h"

#include <algorithm>
#include <new>

#include "engine/base/clock.h"
#include "engine/base/quote.h"
#include "engine/execute/waits.h"

namespace ibcoll {

/// Of a call that is recorded.
OpOutcome LaneOperations::execute_and_note(LaneState& lane, const Op& op, uint32_t position,
                                           Part part) {
  const int64_t begin = now_ns();
  const bool nothing = op.kind == OpKind::kSignal && !sends_token(op, part);
  const Lane which = op.lane;
  const OpOutcome outcome = execute_now(lane, op, position, part);
  if (outcome != OpOutcome::kBlocked && !nothing)
    call_.record->rank.ops.push_back({which, position, part.piece, begin, now_ns()});
  return outcome;
}

/// An operator of the program's could not combine. It may do better in other groups.
OpOutcome LaneOperations::end_by_operator(const Op& op, const char* failure) {
  const Rank me = job_rank(call_.group->me);
  services_.ends.request(
      *call_.group,
      {me, ErrorCode::kCancelled,
       fmt::format("rank {}: the operator has failed: {} (in {} ({}), call {}, step {})", me,
                   printable(failure), to_string(call_.program->collective),
                   call_.program->algorithm, call_.key.sequence, op.step)});
  return OpOutcome::kBlocked;
}

OpOutcome LaneOperations::reduce(LaneState& lane, const Op& op, Part part) {
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.dst_buffer, op.dst_first, op.count);
  const size_t first = part_begin(part, length) + lane.progress, last = part_end(part, length);
  size_t piece = last - first;
  if (piece > LaneServices::kPieceBytes)
    piece = std::max<size_t>(LaneServices::kPieceBytes / binding.grain, 1) * binding.grain;
  const Reduction& reduction = *binding.reduction;
  const char* const failure = (op.before ? reduction.combine_reversed : reduction.combine)(
      binding.address(op.dst_buffer, op.dst_first) + first,
      binding.address(op.src_buffer, op.src_first) + first, piece, reduction.context);
  if (failure != nullptr) [[unlikely]]
    return end_by_operator(op, failure);
  if (first + piece < last) {
    lane.progress += piece;
    return OpOutcome::kMoved;
  }
  lane.progress = 0;
  return OpOutcome::kDone;
}

/// Slots that follow each other in number may lie anywhere.
void LaneOperations::copy_scattered(const Op& op, Part part) {
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

OpOutcome LaneOperations::copy(LaneState& lane, const Op& op, Part part) {
  const Binding& binding = call_.binding;
  if (call_.strided) [[unlikely]]
    return strided().copy(lane, op, part);
  if (binding.unequal && op.count != 1) {
    copy_scattered(op, part);
    return OpOutcome::kDone;
  }
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  const size_t begin = part_begin(part, length) + lane.progress;
  const size_t end = part_end(part, length);
  if (begin == end) return OpOutcome::kDone;  // progress is never all of it
  const size_t piece = std::min(LaneServices::kPieceBytes, end - begin);
  std::byte* target = binding.address(op.dst_buffer, op.dst_first) + begin;
  const std::byte* source = binding.address(op.src_buffer, op.src_first) + begin;
  if (target == source) return OpOutcome::kDone;  // as above
  if (call_.streaming) {
    copy_streaming(target, source, piece);
  } else {
    copy_plain(target, source, piece);
  }
  if (begin + piece < end) {
    lane.progress += piece;
    return OpOutcome::kMoved;
  }
  lane.progress = 0;
  return OpOutcome::kDone;
}

inline Offer LaneOperations::offer(Rank peer, const Op& op, Part part, bool token,
                                   uint32_t& ticket) {
  MessageKey key = call_.key;
  key.token = token;
  const std::byte* source = nullptr;
  size_t bytes = 0;
  if (!token) {
    if (call_.strided) [[unlikely]]
      return strided().offer(op, part, ticket);
    const size_t length = call_.binding.length(op.src_buffer, op.src_first, op.count);
    source = call_.binding.address(op.src_buffer, op.src_first) + part_begin(part, length);
    bytes = part_end(part, length) - part_begin(part, length);
  }
  return services_.local.offer(peer, key, source, bytes, ticket);
}

OpOutcome LaneOperations::put_local(LaneState& lane, const Op& op, uint32_t position, Part part,
                                    bool token) {
  const Rank peer = job_rank(op.peer);
  if (call_.group->has_lost(peer)) [[unlikely]]
    return OpOutcome::kDone;
  uint32_t ticket = 0;
  switch (offer(peer, op, part, token, ticket)) {
    case Offer::kNoRoom:
      return OpOutcome::kBlocked;
    case Offer::kPending:
      // An operation before it in this round may have ended the job, which has taken back all that
      // was offered by then.
      if (services_.end.has_come()) [[unlikely]] {
        services_.local.retract(peer, ticket);
        return OpOutcome::kBlocked;
      }
      try {
        lane.note_pending({peer, true, ticket}, position, part.piece);
      } catch (const std::bad_alloc&) {  // nobody else knows of it
        services_.local.retract(peer, ticket);
        throw;
      }
      return OpOutcome::kDone;
    case Offer::kNoMemory:
      services_.end.give_up({ErrorCode::kNoMemory, fmt::format("{}, for messages to rank {} in {}",
                                                               services_.local.trouble(), peer,
                                                               describe(call_, services_.local))});
      return OpOutcome::kBlocked;
    case Offer::kDone:
      break;
  }
  return OpOutcome::kDone;
}

OpOutcome LaneOperations::put_network(LaneState& lane, const Op& op, uint32_t position, Part part) {
  const Rank peer = job_rank(op.peer);
  if (call_.group->has_lost(peer)) [[unlikely]]
    return OpOutcome::kDone;
  PeerState& state = call_.remote.peers[peer];
  if (state.exposures <= op.exposure) return OpOutcome::kBlocked;
  if (services_.end.has_come()) [[unlikely]]  // nothing is posted then
    return OpOutcome::kBlocked;
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  RegionPlace place = op.dst_buffer == Buffer::kRecv ? state.recv : state.scratch;
  if (binding.unequal) {
    if (state.landings.empty()) {
      services_.disagreements.mismatch(
          call_, peer,
          fmt::format("rank {} expects fewer blocks than rank {} sends it", peer,
                      job_rank(call_.group->me)));
      return OpOutcome::kBlocked;
    }
    const NextLanding& landing = call_.remote.landings[state.landings.first];
    if (landing.bytes != length) {
      services_.disagreements.mismatch(
          call_, peer,
          fmt::format("rank {} expects {} bytes where rank {} sends {}", peer, landing.bytes,
                      job_rank(call_.group->me), length));
      return OpOutcome::kBlocked;
    }
    place = landing.place;
  } else {
    place.offset += binding.offset(op.dst_first);
  }
  RemoteAddress target = services_.mailroom.find(peer, place);
  // The region's key comes with another call's exposure, which this one has overtaken.
  if (target.address == PeerRegions::kUnknown) [[unlikely]]
    return OpOutcome::kBlocked;
  target.address += part_begin(part, length);
  if (call_.strided) [[unlikely]] {
    if (strided().puts_runs(op, part)) return strided().put_runs(lane, op, position, part, target);
    if (!strided().fill_image(op, part)) return OpOutcome::kMoved;
  }
  if (!services_.network->put(
          peer, binding.address(op.src_buffer, op.src_first) + part_begin(part, length),
          call_.remote.regions_of(op.src_buffer).of(op.src_first).key, target,
          part_end(part, length) - part_begin(part, length), state.cell)) {
    return OpOutcome::kBlocked;
  }
  if (binding.unequal && part.last()) state.landings.pop(call_.remote.landings);
  lane.note_pending({peer, false, services_.network->posted(peer)}, position, part.piece);
  return OpOutcome::kDone;
}

OpOutcome LaneOperations::put_mailed(const Op& op, Part part) {
  if (call_.group->has_lost(job_rank(op.peer))) [[unlikely]]
    return OpOutcome::kDone;
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.src_buffer, op.src_first, op.count);
  const size_t begin = part_begin(part, length);
  if (binding[op.src_buffer].strided != nullptr) [[unlikely]] {
    const StridedView source = binding.view(op.src_buffer, op.src_first, op.count).from(begin);
    return services_.mailroom.send_data(call_, op.peer, source, part_end(part, length) - begin)
               ? OpOutcome::kDone
               : OpOutcome::kBlocked;
  }
  return services_.mailroom.send_data(
             call_, op.peer,
             {binding.address(op.src_buffer, op.src_first) + begin, part_end(part, length) - begin})
             ? OpOutcome::kDone
             : OpOutcome::kBlocked;
}

OpOutcome LaneOperations::take_mailed(const Op& op, Part part) {
  Chain& queue = call_.remote.peers[job_rank(op.peer)].mailed;
  if (queue.empty()) return OpOutcome::kBlocked;
  const MailedPut put = call_.remote.mailed[queue.first];
  const Binding& binding = call_.binding;
  const size_t length = binding.length(op.dst_buffer, op.dst_first, op.count);
  const size_t begin = part_begin(part, length), bytes = part_end(part, length) - begin;
  if (put.bytes != bytes) {
    services_.disagreements.mismatch(call_, job_rank(op.peer),
                                     fmt::format("rank {} sends {} bytes where {} are expected",
                                                 job_rank(op.peer), put.bytes, bytes));
    return OpOutcome::kBlocked;
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
  return OpOutcome::kDone;
}

/// Takes a message, with `how` to combine it with what is in its place.
inline Pull LaneOperations::take(LaneState& lane, const Op& op, Part part, bool token,
                                 Combining* how) {
  MessageKey key = call_.key;
  key.token = token;
  std::byte* target = nullptr;
  size_t bytes = 0;
  if (!token) {
    if (call_.strided) [[unlikely]]
      return strided().pull(lane, op, part);
    const size_t length = call_.binding.length(op.dst_buffer, op.dst_first, op.count);
    target = call_.binding.address(op.dst_buffer, op.dst_first) + part_begin(part, length);
    bytes = part_end(part, length) - part_begin(part, length);
  }
  LocalTransport& local = services_.local;
  return how != nullptr
             ? local.pull_combined(job_rank(op.peer), key, target, bytes, *how, lane.progress)
             : local.pull(job_rank(op.peer), key, target, bytes, call_.streaming, lane.progress);
}

OpOutcome LaneOperations::pull(LaneState& lane, const Op& op, Part part, bool token) {
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
      return OpOutcome::kBlocked;
    case Pull::kPartial:
      return OpOutcome::kMoved;
    case Pull::kDone:
      return OpOutcome::kDone;
    case Pull::kMismatch:
      services_.disagreements.mismatch(call_, job_rank(op.peer), services_.local.trouble());
      return OpOutcome::kBlocked;
    case Pull::kFailed:
      services_.end.abort({job_rank(op.peer), ErrorCode::kRankDied, services_.local.trouble()});
      return OpOutcome::kBlocked;
  }
  return OpOutcome::kBlocked;
}

OpOutcome LaneOperations::expose(LaneState& lane, const Op& op) {
  if (call_.binding.eager) return OpOutcome::kDone;  // eager data wait for no exposure
  if (!services_.mailroom.send_exposure(call_, op, lane.progress)) return OpOutcome::kBlocked;
  return lane.progress == 0 ? OpOutcome::kDone : OpOutcome::kMoved;
}

bool LaneOperations::all_exposed(const Op& op) {
  const auto members = call_.group->shape.members(op.peer);
  return std::all_of(members.begin(), members.end(), [&](Rank rank) {
    return call_.remote.peers[job_rank(rank)].exposures >= op.threshold;
  });
}

bool LaneOperations::open_gates() {
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

bool LaneOperations::gates_passed(const Op& op) {
  if (!open_gates()) return false;
  const GroupState& group = *call_.group;
  const auto members = group.shape.members(group.shape.server_of(group.me));
  return std::all_of(members.begin(), members.end(), [&](Rank rank) {
    return services_.local.gate_passed(job_rank(rank), *group.gate_slot, call_.key.sequence,
                                       op.threshold);
  });
}

}  // namespace ibcoll
