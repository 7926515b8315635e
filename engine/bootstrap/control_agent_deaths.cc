// Deaths that the job survives: all machines learn of them, and what the ranks that are left ask is
// answered by the root, the same for all. What it says it has written into its machine's memory
// before, where the next root finds it.

#include <algorithm>
#include <utility>

#include "engine/bootstrap/control_agent.h"

namespace ibcoll {
namespace {

/// Questions are forgotten while others that ask them are still on their way.
constexpr size_t kMostForgotten = 256;

}  // namespace

/// How a rank of this machine has ended, which is noted here.
void ControlAgent::announce(const Failure& end) {
  if (is_root_) return outlives() ? spread(end) : propose(end);
  // Before the job survives deaths everywhere the root takes it for what ends the job.
  if (!block_.asked_to_survive()) return propose(end);
  if (!sought_since_) connections_.root.send_failure(FrameKind::kEnd, end);
  if (outlives()) fail_exchange();
}

void ControlAgent::hear_end(const Failure& end) {
  if (is_root_ && !outlives()) return propose(end);
  const bool known = block_.end_of(end.culprit).has_value();
  const bool noted = known || block_.note_end(end);
  if (is_root_ && !noted) return end_with_too_many(end);
  if (is_root_ && !known) return spread(end);
  if (outlives()) fail_exchange();
}

/// Root: tells all machines, so that none has to note more than it has room for.
void ControlAgent::spread(const Failure& end) {
  if (block_.ends_noted() > ControlBlock::kMostElsewhere) return end_with_too_many(end);
  for (auto& [leader, machine] : connections_.machines) machine.send_failure(FrameKind::kEnd, end);
  fail_exchange();
}

void ControlAgent::end_with_too_many(const Failure& last) {
  decide({last.culprit, ErrorCode::kPeerFailed,
          fmt::format("{}; a job on several machines survives {} deaths", last.what,
                      ControlBlock::kMostElsewhere)});
}

/// Whoever exchanges something with the other machines gets an error.
void ControlAgent::fail_exchange() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
}

void ControlAgent::send_all(FrameKind kind, const Verdict& verdict) {
  for (auto& [leader, machine] : connections_.machines)
    machine.send(kind, me_, std::as_bytes(std::span(&verdict, 1)));
}

/// What the ranks of this machine ask.
void ControlAgent::pass_questions() {
  if (!outlives() || sought_since_ || goodbye_until_) return;
  if (!asked_meanwhile_.empty() && has_learnt()) {
    for (const auto& [question, asker] : std::exchange(asked_meanwhile_, {}))
      answer(question, asker);
  }
  for (const Verdict& question : block_.verdicts().take_questions()) {
    if (is_root_)
      answer(question, me_);
    else
      connections_.root.send(FrameKind::kQuestion, me_, std::as_bytes(std::span(&question, 1)));
  }
  for (const uint64_t question : block_.verdicts().take_forgotten()) {
    const Verdict over{question, 0};
    if (is_root_)
      forget(question);
    else
      connections_.root.send(FrameKind::kForget, me_, std::as_bytes(std::span(&over, 1)));
  }
}

/// Root: the first proposal is the verdict.
void ControlAgent::answer(const Verdict& question, Rank asker) {
  if (std::find(forgotten_.begin(), forgotten_.end(), question.question) != forgotten_.end())
    return;
  const bool known = block_.verdicts().find(question.question).has_value();
  if (!known && !has_learnt()) {
    asked_meanwhile_.emplace_back(question, asker);
    return;
  }
  const auto settled = block_.verdicts().settle(question, Verdicts::Given::kHere);
  if (!settled) return decide({me_, settled.error().code, settled.error().message});
  const Verdict verdict{question.question, **settled};
  if (!known) {
    send_all(FrameKind::kVerdict, verdict);
  } else if (const auto machine = connections_.machines.find(asker);
             machine != connections_.machines.end()) {
    machine->second.send(FrameKind::kVerdict, me_, std::as_bytes(std::span(&verdict, 1)));
  }
  block_.wake_all();
}

void ControlAgent::hear_verdict(const Verdict& verdict) {
  const auto settled = block_.verdicts().settle(verdict, Verdicts::Given::kHere);
  if (!settled) return propose({me_, settled.error().code, settled.error().message});
  if (*settled != verdict.answer) {
    return propose({me_, ErrorCode::kSystem,
                    "two machines have been told different members of a group of survivors: the "
                    "one that decided is gone, and the next one did not know what it had said"});
  }
  block_.wake_all();
}

void ControlAgent::forget(uint64_t question) {
  block_.verdicts().forget(question, Verdicts::Given::kHere);
  if (!is_root_) return;
  forgotten_.push_back(question);
  if (forgotten_.size() > kMostForgotten) forgotten_.pop_front();
  send_all(FrameKind::kForget, {question, 0});
}

}  // namespace ibcoll
