// How the executor ends calls before they have finished.

#include <sched.h>

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/execute/executor.h"
#include "engine/execute/waits.h"

namespace ibcoll {
void Executor::enter(GroupState& group) {
  ends_.enter(group);
  // Before any call of it starts: this rank has confirmed that it stopped.
  while (GroupState* const over = ends_.due()) stop(*over);
}

void Executor::leave(const GroupState& group) {
  // Its members wait to hear from this rank.
  while (GroupState* const over = ends_.due()) stop(*over);
  if (group.one_way && !group.by_arrival && !end_.has_come())
    disagreements_.look_at_untaken_of(group);
  ends_.leave(group);
}

void Executor::end_group(GroupState& group, const Failure& why) {
  if (end_.has_come()) return;
  ends_.request(group, why);
  if (!group.by_arrival) progress();
}

/// A death inside a server ends the groups that the rank was in: rings and heaps of the others are
/// as they were. Over a network what was under way to it may have broken what others need.
bool Executor::survives(const Failure& failure) {
  if (failure.culprit < 0 || failure.code != ErrorCode::kRankDied) return false;
  if (ends_.has_lost(failure.culprit)) return true;
  if (network_ != nullptr || !has_died_ || !has_died_(failure.culprit)) return false;
  ends_.lose(failure.culprit, failure);
  survived_.push_back(failure);  // what makes calls by arrival is told in the next round
  return true;
}

/// The job is over, and the program may use the memory of its calls again. A peer that does not
/// know it yet must not take what stands there then for what was sent.
void Executor::withdraw() {
  for (PostedCall* const call : under_way_.started) {
    for (LaneState& lane : call->lanes) {
      for (const PendingPut& put : lane.pending) {
        if (put.local && !put.ended) local_.retract(put.peer, static_cast<uint32_t>(put.ticket));
      }
    }
  }
  ends_.withdraw();
  if (network_ != nullptr) network_->withdraw();
}

/// Ends the groups of calls whose deadlines have passed.
void Executor::check_deadlines() {
  const int64_t now = now_ns();
  for (PostedCall* const call : timed_) {
    if (now < call->binding.deadline_ns) continue;
    const bool started = !call->queued;
    const Rank me = call->group->to_job[call->group->me];
    const Rank awaited = started ? wait_of(*call, local_).peer : -1;
    ends_.request(*call->group,
                  {awaited < 0 ? me : awaited, ErrorCode::kDeadline,
                   fmt::format("the deadline of {:.3g} s has passed: {}",
                               static_cast<double>(call->binding.time_limit_ns) / 1e9,
                               started ? describe(*call, local_)
                                       : fmt::format("rank {} has not begun call {} of the group, "
                                                     "which waits for earlier ones",
                                                     me, call->key.sequence))},
                  std::max(GroupEnds::kLeastPatienceNs, call->binding.time_limit_ns));
  }
}

/// Carries out what was asked, and goes on with what is under way.
bool Executor::advance_ends() {
  bool moved = false;
  while (GroupState* const group = ends_.due()) {
    stop(*group);
    moved = true;
  }
  moved |= ends_.advance([this](PostedCall& call) {
    if (call.outward) mailroom_.close(call);
    end_unfinished(call);
    if (!without_cells_.empty() && call.outward) start_without_cell();
  });
  return moved;
}

/// Stops the calls of a group that is to end.
void Executor::stop(GroupState& group) {
  std::vector<PostedCall*>& started = under_way_.started;
  const auto of_group = [&group](const PostedCall* call) { return call->group == &group; };
  const auto first = std::find_if(started.begin(), started.end(), of_group);
  ends_.begin(first != started.end() ? *first : nullptr);
  if (groups_ != nullptr) groups_->ended(group.list);
  for (PostedCall* const call : started) {
    if (!of_group(call)) continue;
    call->record = nullptr;
    ends_.hold(*call);
  }
  std::erase_if(started, of_group);
  std::erase_if(timed_, of_group);
  for (PostedCall* const call : group.waiting) end_unfinished(*call);
  group.waiting.clear();
  for (PostedCall* const call : without_cells_) {
    if (of_group(call)) end_unfinished(*call);
  }
  std::erase_if(without_cells_, of_group);
  mailroom_.forget(group.key);
}

/// Nobody touches what the call was given any more.
void Executor::end_unfinished(PostedCall& call) {
  Completion& completion = *call.completion;
  completion.call = nullptr;
  completion.error = &*call.group->over;
  completion.done = true;
  idle_.push_back(&call);
}

Status Executor::settle_ends() {
  Completion settled;
  ends_.when_settled(&settled);
  const Status waited = wait(settled);
  ends_.when_settled(nullptr);
  return waited;
}

Status Executor::check_nothing_is_left() {
  if (!end_.has_come()) disagreements_.look_at_what_is_left();
  if (network_ == nullptr) return status();
  // Who has sent unasked to a rank that has ended the call without it may have left here already.
  constexpr int kRounds = 16;
  for (int i = 0; i < kRounds && !end_.has_come(); ++i) progress();
  const auto mine = static_cast<uint8_t>(disagreements_.has_dispute());
  std::vector<uint8_t> all(static_cast<size_t>(bootstrap_.size()));
  IBCOLL_TRY(bootstrap_.allgather(&mine, 1, all.data()));
  if (std::count(all.begin(), all.end(), 0) == bootstrap_.size()) return status();
  // Longer than a peer in a dispute has to say what it means; a group that ends ends disputes, too.
  constexpr int64_t kLongestNs = 4'000'000'000;
  for (const int64_t until = now_ns() + kLongestNs; !end_.has_come() && now_ns() < until;) {
    if (!progress()) sched_yield();
    disagreements_.settle();
    if (const auto failure = bootstrap_.failure()) end_.end_with(*failure);
  }
  return status();
}

}  // namespace ibcoll
