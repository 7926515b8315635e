#include "engine/execute/call_runner.h"

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/base/pause.h"
#include "engine/execute/lane_runner.h"
#include "engine/sharing/test_hooks.h"

namespace ibcoll {
namespace {

/// Of so many calls that ranks may end before others begin them one asks them: what nobody has
/// asked for takes their memory until they come.
IBCOLL_LIMIT(uint32_t, kUnasked, 16);

/// So often a call that is waited for is looked at alone: about as long as an answer takes from a
/// core whose rank is in the call already.
IBCOLL_LIMIT(int, kLooks, 32);

/// What the messages of a call go by.
MessageKey key_of(const GroupState& group, const RankProgram& program, const Binding& binding,
                  uint32_t sequence) {
  const uint32_t meant = static_cast<uint32_t>(program.hash) ^ binding.meaning;
  return {group.key, sequence, meant, false, program.sends_locally_only};
}

/// How the one who has posted a call learns that it has finished.
void tell(Completion& completion) {
  completion.call = nullptr;
  if (completion.then != nullptr) {
    completion.then(completion.owner);
  } else {
    completion.done = true;
  }
}

}  // namespace

CallRunner::CallRunner(const LaneServices& services, CallsUnderWay& under_way,
                       size_t streaming_bytes)
    : services_(services),
      under_way_(under_way),
      streaming_bytes_(streaming_bytes),
      deadlines_(services.local, services.ends) {}
CallRunner::~CallRunner() = default;

PostedCall& CallRunner::take_call() {
  if (!idle_.empty()) {
    PostedCall* call = idle_.back();
    idle_.pop_back();
    return *call;
  }
  calls_.push_back(std::make_unique<PostedCall>());
  under_way_.started.reserve(calls_.size());
  idle_.reserve(calls_.size());
  return *calls_.back();
}

Status CallRunner::post(GroupState& group, const RankProgram& program, const Binding& binding,
                        Completion& completion, uint32_t sequence) {
  const JobEnd& end = services_.end;
  if (end.has_come()) [[unlikely]]
    return end.status();
  if (group.over) [[unlikely]]
    return tl::unexpected<Error>(*group.over);
  PostedCall& call =
      fill(group, program, binding, completion, key_of(group, program, binding, sequence));
  services_.disagreements.note(call);
  if (end.has_come()) [[unlikely]]
    return end.status();
  if (!group.calls.may_start(sequence)) [[unlikely]] {
    queue(call);
    return {};
  }
  start_or_give_up(call);
  return go_on(call);
}

Status CallRunner::post_short(GroupState& group, const RankProgram& program, const Binding& binding,
                              Completion& completion, uint32_t sequence, const ShortProgram& list,
                              bool hurries) {
  const JobEnd& end = services_.end;
  const MessageKey key = key_of(group, program, binding, sequence);
  const bool usual = record_ == nullptr && group.calls.may_start(sequence) && !end.has_come() &&
                     !group.over && services_.disagreements.note_short(key, binding.told);
  if (!usual) [[unlikely]]
    return post(group, program, binding, completion, sequence);
  if (end.has_come()) [[unlikely]]
    return end.status();
  if (binding.one_way) group.one_way = true;
  completion.done = false;  // what follows the call may ask before it is told
  const size_t done = list.carry_out(services_.local, group, key, binding, hurries ? kLooks : 1);
  under_way_.unseen |= done > 0;
  if (done < list.ops().size()) {
    PostedCall& call = fill(group, program, binding, completion, key);
    start_or_give_up(call);
    call.skip(static_cast<uint32_t>(done));
    return go_on(call);
  }
  if (group.calls.end(sequence)) start_waiting(group);
  tell(completion);
  return {};
}

/// A call that is to be posted.
PostedCall& CallRunner::fill(GroupState& group, const RankProgram& program, const Binding& binding,
                             Completion& completion, const MessageKey& key) {
  PostedCall& call = take_call();
  call.program = &program;
  call.completion = &completion;
  call.group = &group;
  call.binding = binding;
  if (binding.one_way) {
    group.one_way = true;
    if ((group.asking + key.sequence) % kUnasked == kUnasked - 1) call.binding.eager = false;
  }
  call.key = key;
  call.watch.begin();
  completion.call = &call;
  completion.done = false;
  deadlines_.add(call);
  return call;
}

/// Moves a call on that has started.
Status CallRunner::go_on(PostedCall& call) {
  const JobEnd& end = services_.end;
  if (end.has_come()) [[unlikely]]
    return end.status();
  if (!call.queued) advance_alone(call);
  return {};
}

/// Moves one call on outside of rounds; true if something moved.
bool CallRunner::advance_alone(PostedCall& call) {
  try {
    if (!advance(call)) return false;
  } catch (...) {
    services_.end.give_up_if_thread_ends();
    throw;
  }
  under_way_.unseen = true;
  services_.local.poll();
  return true;
}

/// Keeps a call that may not start yet. The second phase of one that began earlier goes before
/// others.
void CallRunner::queue(PostedCall& call) {
  call.queued = true;
  std::deque<PostedCall*>& waiting = call.group->waiting;
  auto place = waiting.end();
  while (place != waiting.begin() &&
         static_cast<int32_t>((*std::prev(place))->key.sequence - call.key.sequence) > 0) {
    --place;
  }
  waiting.insert(place, &call);
}

/// Starts the calls that were kept and may start now.
void CallRunner::start_waiting(GroupState& group) {
  while (!group.waiting.empty() && group.calls.may_start(group.waiting.front()->key.sequence)) {
    PostedCall& call = *group.waiting.front();
    group.waiting.pop_front();
    start_or_give_up(call);
  }
}

/// Starts a call that waits for a cell: one has been given back.
void CallRunner::start_without_cell() {
  PostedCall& next = *without_cells_.front();
  without_cells_.pop_front();
  start_or_give_up(next);
}

void CallRunner::start_or_give_up(PostedCall& call) {
  call.set_ways(streaming_bytes_);
  call.queued = call.outward && !services_.mailroom.admit(call);
  if (call.queued) [[unlikely]] {
    without_cells_.push_back(&call);
  } else if (Status started = start(call); !started) [[unlikely]] {
    services_.end.give_up(started.error());
  }
}

Status CallRunner::start(PostedCall& call) {
  const RankProgram& program = *call.program;
  if (!call.outward) {
    // Nothing is in these lanes, nor of what calls before it have left there.
    for (const Lane which : {Lane::kSend, Lane::kRecv}) {
      LaneState& lane = call.lanes[static_cast<int>(which)];
      lane.size = lane.next = 0;
      lane.pending.clear();
    }
  }
  for (int i = call.outward ? 0 : static_cast<int>(Lane::kLocal); i < kLanes; ++i) {
    LaneState& lane = call.lanes[i];
    lane.ops.open(program.lanes[i]);
    lane.streams.open(program.streams);
    lane.size = static_cast<uint32_t>(program.lanes[i].size());
    lane.next = lane.stream_position = lane.piece = lane.open_strands = 0;
    lane.in_run = false;
    lane.progress = 0;
    lane.pending.clear();
    call.next_stream(lane, 0);
  }
  if (!program.strands.empty()) {
    for (const Stream& stream : program.streams) {
      if (!stream.in_strands()) continue;
      LaneState& lane = call.lanes[static_cast<int>(stream.lane)];
      lane.strands.reserve(program.strands[stream.strands].ends.size());
    }
  }
  call.complete.fill(0);
  call.gates = 0;
  call.remote.number = ++numbers_;
  call.remote.left.reset();
  call.remote.held_by.reset();
  // What arrivals make meanwhile is not the call that the program means.
  if (record_ != nullptr && !call.group->by_arrival) [[unlikely]]
    begin_record(call);
  under_way_.started.push_back(&call);
  if (call.outward) {
    if (Status opened = services_.mailroom.open(call); !opened) {
      under_way_.started.pop_back();
      services_.mailroom.close(call);
      return opened;
    }
  }
  services_.mailroom.take_early_mails(call);
  return {};
}

void CallRunner::record_into(CallRecord* record) {
  record_ = record;
  for (const std::unique_ptr<PostedCall>& call : calls_) call->record = nullptr;
}

/// A call of several phases is recorded in its last one, what checks it left out.
void CallRunner::begin_record(PostedCall& call) {
  const CallMeaning* const told = call.binding.told;
  if (told != nullptr && told->purpose == CallPurpose::kCheck) return;
  record_into(record_);
  call.record = record_;
  *record_ = {call.program, call.binding.block_bytes, call.binding.pieces, {now_ns(), 0, {}, {}}};
}

void CallRunner::end_record(PostedCall& call) {
  call.record->rank.end_ns = now_ns();
  for (auto& arrival : call.record->rank.arrivals) arrival.from = call.group->rank_of(arrival.from);
  call.record = nullptr;
}

void CallRunner::hurry(const Completion& completion) {
  for (int i = 0; i < kLooks && !completion.done && !services_.end.has_come(); ++i) {
    PostedCall* const call = completion.call;
    // That of a group that is over may be held until peers have read from it.
    if (call == nullptr || call->queued || call->outward || call->group->over) return;
    if (advance_alone(*call)) {
      ++call->moves;
      ++under_way_.moves;
    } else {
      pause_core();
    }
  }
}

bool CallRunner::advance_all() {
  bool moved = false;
  // From the newest down: a call that finishes leaves the list.
  const std::vector<PostedCall*>& started = under_way_.started;
  for (size_t i = started.size(); i-- > 0;) {
    if (i < started.size()) {
      PostedCall& call = *started[i];
      const bool call_moved = advance(call);
      call.moves += static_cast<uint32_t>(call_moved);
      moved |= call_moved;
    }
    if (services_.end.has_come()) [[unlikely]]
      break;
  }
  return moved;
}

/// Moves one call on; true if something moved. The call may have finished, and be idle, afterwards.
bool CallRunner::advance(PostedCall& call) {
  LaneRunner runner(services_, call);
  bool moved = false;
  if (call.outward) {
    // Posting to the network comes first: it works on while this core copies. Exposures go before
    // puts: a network in software copies in put(), and peers can put meanwhile.
    LaneState& sends = call.lanes[static_cast<int>(Lane::kSend)];
    LaneState& receives = call.lanes[static_cast<int>(Lane::kRecv)];
    NetworkTransport* const network = services_.network;
    const bool exposes = !call.binding.eager;
    if (network != nullptr) network->post_for(call.remote.number);
    moved |= runner.advance(exposes ? receives : sends);
    moved |= runner.advance(exposes ? sends : receives);
    moved |= services_.mailroom.pass_on(call);
    if (network != nullptr) {
      network->post_for(0);
      network->flush();
    }
  }
  moved |= runner.advance(call.lanes[static_cast<int>(Lane::kLocal)]);
  for (const LaneState& lane : call.lanes) {
    if (!lane.finished()) return moved;
  }
  if (call.outward && !has_left(call)) return moved;
  finish(call);
  return true;
}

/// Whether what the call has posted and passed on needs this rank no more. Peers of other calls
/// that are under way may come to them after this one has ended.
bool CallRunner::has_left(PostedCall& call) {
  if (!call.remote.forwarding.empty()) return false;
  NetworkTransport* const network = services_.network;
  if (network == nullptr) return true;
  RemoteState& remote = call.remote;
  if (!remote.left) remote.left = network->mark();
  remote.held_by = network->held_by(remote.number, *remote.left, call.group->to_job);
  return !remote.held_by;
}

void CallRunner::finish(PostedCall& call) {
  if (call.outward) services_.mailroom.close(call);
  if (call.record != nullptr) [[unlikely]]
    end_record(call);
  std::vector<PostedCall*>& started = under_way_.started;
  if (started.back() == &call) [[likely]] {
    started.pop_back();
  } else {
    started.erase(std::find(started.begin(), started.end(), &call));
  }
  idle_.push_back(&call);
  deadlines_.remove(call);
  GroupState& group = *call.group;
  if (group.calls.end(call.key.sequence)) start_waiting(group);
  if (!without_cells_.empty() && call.outward) [[unlikely]]
    start_without_cell();
  tell(*call.completion);
}

bool CallRunner::stop_due() {
  bool stopped = false;
  while (GroupState* const group = services_.ends.due()) {
    stop(*group);
    stopped = true;
  }
  return stopped;
}

bool CallRunner::advance_ends() {
  bool moved = stop_due();
  moved |= services_.ends.advance([this](PostedCall& call) {
    if (call.outward) services_.mailroom.close(call);
    end_unfinished(call);
    if (!without_cells_.empty() && call.outward) start_without_cell();
  });
  return moved;
}

/// Stops the calls of a group that is to end.
void CallRunner::stop(GroupState& group) {
  GroupEnds& ends = services_.ends;
  std::vector<PostedCall*>& started = under_way_.started;
  const auto of_group = [&group](const PostedCall* call) { return call->group == &group; };
  const auto first = std::find_if(started.begin(), started.end(), of_group);
  ends.begin(first != started.end() ? *first : nullptr);
  for (PostedCall* const call : started) {
    if (!of_group(call)) continue;
    call->record = nullptr;
    ends.hold(*call);
  }
  std::erase_if(started, of_group);
  deadlines_.remove_all(group);
  for (PostedCall* const call : group.waiting) end_unfinished(*call);
  group.waiting.clear();
  for (PostedCall* const call : without_cells_) {
    if (of_group(call)) end_unfinished(*call);
  }
  std::erase_if(without_cells_, of_group);
  services_.mailroom.forget(group.key);
}

/// Nobody touches what the call was given any more.
void CallRunner::end_unfinished(PostedCall& call) {
  Completion& completion = *call.completion;
  completion.call = nullptr;
  completion.error = &*call.group->over;
  completion.done = true;
  idle_.push_back(&call);
}

void CallRunner::retract_offers() {
  for (PostedCall* const call : under_way_.started) {
    for (LaneState& lane : call->lanes) {
      for (const PendingPut& put : lane.pending) {
        if (put.local && !put.ended)
          services_.local.retract(put.peer, static_cast<uint32_t>(put.ticket));
      }
    }
  }
}

}  // namespace ibcoll
