// What the executor does when things go wrong: peers that die, come late or disagree.

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/execute/executor.h"

namespace ibcoll {
namespace {

/// A wait that takes longer is asked about.
constexpr int64_t kAskNs = 300'000'000;
/// How long data of a rank that has left may be under way.
constexpr int64_t kAbsentNs = 700'000'000;

}  // namespace

void Executor::fail_with(Error error) {
  if (!failed_) failed_ = std::move(error);
}

void Executor::abort(const Failure& failure) {
  bootstrap_.abort(failure);
  // Somebody else's failure may have been first: every survivor names that one.
  end_with(bootstrap_.failure().value_or(failure));
}

/// Ends the job here: with its one failure, the same on every survivor, and where this rank was.
void Executor::end_with(const Failure& failure) {
  if (failed_) return;  // the calls that were under way may be gone
  const auto waiting = std::find_if(active_.begin(), active_.end(),
                                    [](const Run* run) { return run->active && !run->queued; });
  const std::string place = waiting == active_.end() ? "" : describe(**waiting);
  const bool said = failure.what.find(place) != std::string::npos;
  fail_with({failure.code, said ? failure.what : fmt::format("{}; {}", failure.what, place)});
}

Error Executor::give_up(const Error& error) {
  if (!failed_) {
    abort({bootstrap_.rank(), error.code,
           fmt::format("rank {}: {}", bootstrap_.rank(), error.message)});
  }
  return *failed_;
}

/// What keeps a lane from going on; nothing where it is through.
std::optional<Executor::Blocked> Executor::blocked_on(const Run& run, const LaneState& lane) const {
  const auto job = [&run](Rank rank) { return run.group->to_job[rank]; };
  if (lane.next == lane.size) {
    if (lane.pending.empty()) return std::nullopt;
    const PendingPut& put = lane.pending.front();
    return Blocked{put.peer, lane.ops[put.position].step, "to take its data"};
  }
  const Op& op = lane.ops[lane.next];
  switch (op.kind) {
    case OpKind::kPut:
      return Blocked{job(op.peer), op.step, "to take part"};
    case OpKind::kExpect:
      return Blocked{job(op.peer), op.step, "to send its data"};
    case OpKind::kSignal:
    case OpKind::kWait:
      return Blocked{job(op.peer), op.step, "to send a token"};
    case OpKind::kWaitExposed:
      for (const Rank rank : run.group->shape.members(op.peer)) {
        const PeerState* peer = run.peers.find(rank);
        if (peer == nullptr || peer->exposures < op.threshold)
          return Blocked{job(rank), op.step, "to be ready to receive"};
      }
      break;
    case OpKind::kGateWait:
      if (!run.group->gate_slot) break;
      for (const Rank rank : run.group->shape.members(run.group->shape.server_of(run.group->me))) {
        if (!local_.gate_passed(job(rank), *run.group->gate_slot, run.key.sequence, op.threshold))
          return Blocked{job(rank), op.step, "to pass a gate"};
      }
      break;
    case OpKind::kForward:
      return Blocked{-1, op.step, "for exposures to pass on"};
    default:
      break;
  }
  return Blocked{-1, op.step, "for its own earlier operations"};
}

/// The first lane that can't go on says what this run waits for.
Executor::Blocked Executor::blocked_on(const Run& run) const {
  for (const LaneState& lane : run.lanes) {
    if (const auto blocked = blocked_on(run, lane)) return *blocked;
  }
  return {};
}

/// A peer that some lane waits for, although it has left the job or can't be reached.
std::optional<Failure> Executor::absent_peer(const Run& run) const {
  for (const LaneState& lane : run.lanes) {
    const auto blocked = blocked_on(run, lane);
    if (!blocked || blocked->peer < 0) continue;
    if (auto absence = bootstrap_.absence(blocked->peer)) return absence;
  }
  return std::nullopt;
}

/// What an absent peer sent before it left may still be on its way: it is waited for a while longer
/// from when its absence is seen.
void Executor::check_absence(Run& run, int64_t waited_ns) {
  if (failed_) return;
  const auto absence = waited_ns >= kAskNs ? absent_peer(run) : std::nullopt;
  if (!absence || run.absence_ns == 0 || waited_ns < run.absence_ns) {
    run.absence_ns = absence ? waited_ns : 0;
  } else if (waited_ns - run.absence_ns >= kAbsentNs) {
    abort(*absence);
  }
}

std::string Executor::describe(const Run& run) const {
  const Blocked blocked = blocked_on(run);
  const std::string where =
      fmt::format("{} ({}), call {}, step {}", to_string(run.program->collective),
                  run.program->algorithm, run.key.sequence, blocked.step);
  const Rank me = run.group->to_job[run.group->me];
  if (blocked.peer < 0) return fmt::format("rank {} in {}", me, where);
  return fmt::format("rank {} was waiting for rank {} {} in {}", me, blocked.peer, blocked.what,
                     where);
}

/// Looks after the completion that a program tests: what a wait looks for, as often as that costs
/// little beside the tests themselves.
void Executor::check_tested(Run& run) {
  constexpr int64_t kSeldomNs = 1'000'000;
  constexpr int32_t kMostTests = 1024;
  Tested& tested = run.tested;
  const int64_t now = now_ns();
  if (tested.read_ns != 0) {
    tested.interval =
        now - tested.read_ns < kSeldomNs ? std::min(2 * tested.interval, kMostTests) : 1;
  }
  tested.left = tested.interval;
  // One that waits for its turn gets on with those before it.
  const uint32_t moves = run.queued ? moves_ : run.moves;
  if (tested.read_ns == 0 || tested.moves != moves) {
    tested.moves = moves;
    tested.idle_since_ns = now;
    tested.next_report_ns = options_.late_ns;
  }
  tested.read_ns = now;
  // Asking who died costs a system call.
  if (now - health_checked_ns_ < kSeldomNs) return;
  health_checked_ns_ = now;
  check_health(&run, now - tested.idle_since_ns, tested.next_report_ns);
}

/// Looks for reasons why a wait may never end. `run`: what is waited for, if it has started;
/// `waited_ns`: how long nothing moved; `next_report_ns`: how long it must be to be reported.
void Executor::check_health(Run* run, int64_t waited_ns, int64_t& next_report_ns) {
  if (network_ == nullptr) take_local_mails();
  settle_dispute();
  if (failed_) return;
  if (run != nullptr && !run->queued && waited_ns >= kAskNs) {
    if (!run->asked) ask(*run);
    if (waiting_ != nullptr && waiting_->run == run) tell_the_stuck(*run);
    if (failed_) return;
  }
  const auto text = [&] {
    if (run == nullptr || run->queued) return std::string("between two phases of a call");
    const auto absence = absent_peer(*run);
    return absence ? fmt::format("{} ({})", describe(*run), absence->what) : describe(*run);
  };
  if (const auto failure = bootstrap_.failure()) {
    end_with(*failure);
    return;
  }
  if (run != nullptr && !run->queued && waited_ns > 0) check_absence(*run, waited_ns);
  if (failed_) return;
  // A process that has ended in order matters to those alone who wait for it.
  if (const auto dead = find_dead_ ? find_dead_() : std::nullopt;
      dead && !bootstrap_.absence(*dead)) {
    abort({*dead, ErrorCode::kPeerFailed, fmt::format("rank {} has died", *dead)});
    return;
  }
  if (options_.deadline_ns > 0 && waited_ns >= options_.deadline_ns) {
    const Rank culprit = run != nullptr && !run->queued ? blocked_on(*run).peer : -1;
    abort({culprit, ErrorCode::kDeadline,
           fmt::format("nothing has moved for {:.1f} s, the deadline (IBCOLL_DEADLINE): {}",
                       static_cast<double>(waited_ns) / 1e9, text())});
    return;
  }
  if (options_.late_ns > 0 && waited_ns >= next_report_ns && next_report_ns > 0) {
    log().warn("for {:.0f} s {}", static_cast<double>(waited_ns) / 1e9, text());
    next_report_ns *= 2;
  }
}

}  // namespace ibcoll
