#include "engine/execute/health.h"

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/execute/waits.h"

namespace ibcoll {
namespace {

/// A wait that takes longer is asked about.
constexpr int64_t kAskNs = 300'000'000;
/// Asking who died costs a system call: it is asked so often at most. Calls that a program tests
/// are looked at as often, each by itself: those tested in turn must not take each other's turns.
constexpr int64_t kSeldomNs = 1'000'000;
/// What others had sent for a call before the job ended may come so much later than the news.
constexpr int64_t kBehindEndNs = 20'000'000;
/// A program in which all ranks go on, because the launcher has ended and none of them, might never
/// wait so long for one call: from then on it need not.
constexpr int64_t kBehindEndInAllNs = 500'000'000;

/// Waits are looked at many times a second.
constexpr int64_t kLongestLookNs = 1'000'000'000;

/// Whether something that was first seen at `seen_ns` of a clock or wait, 0: not before, is the
/// case for that long at `now_ns` of the same.
bool lasts(int64_t& seen_ns, int64_t now_ns, int64_t long_enough_ns) {
  if (seen_ns == 0 || now_ns < seen_ns) {
    seen_ns = now_ns;
    return false;
  }
  return now_ns - seen_ns >= long_enough_ns;
}

}  // namespace

/// A peer that some lane waits for, although it has left the job or can't be reached.
std::optional<Failure> Health::absent_peer(const PostedCall& call) const {
  for (const LaneState& lane : call.lanes) {
    const auto wait = wait_of(call, lane, local_);
    if (!wait || wait->peer < 0) continue;
    // Who makes a call by arrival ends its group after a death; who leaves still goes on with it.
    if (call.group->by_arrival &&
        (deaths_.include(wait->peer) || bootstrap_.is_leaving(wait->peer)))
      continue;
    if (auto absence = bootstrap_.absence(wait->peer)) return absence;
  }
  return std::nullopt;
}

/// What an absent peer sent before it left may still be on its way: it is waited for a while longer
/// from when its absence is seen.
void Health::check_absence(PostedCall& call, int64_t waited_ns) {
  auto absence = waited_ns >= kAskNs ? absent_peer(call) : std::nullopt;
  if (!absence) {
    call.watch.absence_ns = 0;
  } else if (lasts(call.watch.absence_ns, waited_ns, kLastDataNs)) {
    end_.abort(*absence);
  }
}

/// Notes since when nothing of the call has moved.
void Health::observe(PostedCall& call, int64_t now) const {
  CallWatch& watch = call.watch;
  // One that waits for its turn gets on with those before it.
  const uint32_t moves = call.queued ? calls_.moves : call.moves;
  if (watch.idle_since_ns != 0 && watch.moves == moves) return;
  watch.moves = moves;
  watch.idle_since_ns = now;
  watch.next_report_ns = options_.late_ns;
}

void Health::check_tested(PostedCall& call) {
  CallWatch& watch = call.watch;
  const int64_t now = now_ns();
  watch.tests.read(now);
  observe(call, now);
  if (now - watch.checked_ns < kSeldomNs) return;
  watch.checked_ns = now;
  check(&call, now - watch.idle_since_ns, watch.next_report_ns);
}

void Health::check_all(const std::vector<PostedCall*>& calls) {
  const int64_t now = now_ns();
  for (PostedCall* call : calls) observe(*call, now);
  if (now - checked_all_ns_ < kSeldomNs) return;
  checked_all_ns_ = now;
  if (calls.empty()) check_job();
  for (size_t i = 0; i < calls.size(); ++i) {  // mails that are taken meanwhile may make more
    if (end_.has_come()) return;
    PostedCall* const call = calls[i];
    check(call, now - call->watch.idle_since_ns, call->watch.next_report_ns);
  }
}

std::optional<Rank> Health::find_dead() {
  if (!options_.find_dead) return std::nullopt;
  const int64_t now = now_ns();
  if (now - asked_ns_ < kSeldomNs) return std::nullopt;
  asked_ns_ = now;
  return options_.find_dead();
}

/// The rank of the job that a call, or its end, waits for; -1: no one in particular.
Rank Health::awaited(const PostedCall* call) const {
  if (call == nullptr) return -1;
  return call->group->over ? ends_.awaited(call->key.group) : wait_of(*call, local_).peer;
}

std::string Health::describe_wait(const PostedCall* call) const {
  if (call == nullptr) return "between two phases of a call";
  if (call->group->over) {
    return fmt::format("rank {} was waiting for rank {} to confirm that a group is over: {}",
                       bootstrap_.rank(), awaited(call), call->group->over->message);
  }
  const auto absence = absent_peer(*call);
  const std::string text = describe(*call, local_);
  return absence ? fmt::format("{} ({})", text, absence->what) : text;
}

void Health::look_at_end() {
  const auto failure = bootstrap_.failure();
  if (failure && failure->code != ErrorCode::kRankDied &&
      lasts(end_seen_ns_, now_ns(), kBehindEndInAllNs))
    end_.end_with(*failure);
}

/// How long the call that is waited for has not moved, whatever has come for others.
int64_t Health::stuck_ns(const PostedCall& call) {
  const int64_t now = now_ns();
  if (!(stuck_.call == call.id()) || stuck_.moves != call.moves) {
    stuck_ = {call.id(), call.moves, now};
  } else {
    // A job that was suspended has not waited all the time.
    stuck_.ns += std::min(now - stuck_.seen_ns, kLongestLookNs);
    stuck_.seen_ns = now;
  }
  return stuck_.ns;
}

void Health::check(PostedCall* call, int64_t waited_ns, int64_t& next_report_ns) {
  disagreements_.settle();
  if (end_.has_come()) return;
  // What a group that is over still waits for is GroupEnds' to look after.
  PostedCall* const started =
      call != nullptr && !call->queued && !call->group->over ? call : nullptr;
  const bool by_arrival = call != nullptr && call->group->by_arrival;
  if (const auto failure = bootstrap_.failure()) {
    // The others may have ended this call well before one of them made a mistake in another.
    const bool may_end = call != nullptr && failure->code != ErrorCode::kRankDied;
    if (may_end && !lasts(call->watch.end_ns, waited_ns, kBehindEndNs) &&
        !lasts(end_seen_ns_, now_ns(), kBehindEndInAllNs))
      return;
    end_.end_with(*failure);
  }
  if (end_.has_come()) return;
  if (started != nullptr && waited_ns > 0) check_absence(*started, waited_ns);
  if (end_.has_come()) return;
  // A process that has ended in order matters to those alone who wait for it. One that is leaving
  // has not: it must serve this rank, too. After a death that is no more so: all leave alone.
  if (const auto dead = find_dead();
      dead &&
      (!bootstrap_.absence(*dead) || (bootstrap_.is_leaving(*dead) && deaths_.known().empty()) ||
       (!deaths_.known().empty() && bootstrap_.end_of(*dead)))) {
    asked_ns_ = 0;  // there may be more
    return end_.abort({*dead, ErrorCode::kRankDied, fmt::format("rank {} has died", *dead)});
  }
  if (by_arrival) return;  // nobody waits in it
  // After what can be known of deaths: a call that waits in vain because of one is in no cycle.
  if (started != nullptr && !started->group->over) {
    if (waited_ns >= kAskNs) disagreements_.ask(*started);
    if (calls_.waited_for() == started) {
      if (stuck_ns(*started) >= options_.cycle_ns) {
        disagreements_.tell_the_stuck(*started);
      } else {
        disagreements_.forget_chains();
      }
    }
    if (end_.has_come()) return;
  }
  const PostedCall* const late = call != nullptr && call->queued ? nullptr : call;
  if (options_.deadline_ns > 0 && waited_ns >= options_.deadline_ns) {
    return end_.abort({awaited(late), ErrorCode::kDeadline,
                       fmt::format("nothing has moved for {:.1f} s, the deadline "
                                   "(IBCOLL_DEADLINE): {}",
                                   static_cast<double>(waited_ns) / 1e9, describe_wait(late))});
  }
  if (options_.late_ns > 0 && waited_ns >= next_report_ns && next_report_ns > 0) {
    log().warn("for {:.0f} s {}", static_cast<double>(waited_ns) / 1e9, describe_wait(late));
    next_report_ns *= 2;
  }
}

}  // namespace ibcoll
