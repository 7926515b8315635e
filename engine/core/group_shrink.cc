#include "engine/core/group_shrink.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/core/inner_call.h"

namespace ibcoll {
namespace {

/// What is said of a try: all members have come. Else: which rank of the job has died.
constexpr int64_t kComplete = -1;
/// How long a rank waits before it looks again for a death that another one has found.
constexpr int64_t kLookNs = 1'000'000;

/// One call of shrink().
class Shrinking {
 public:
  Shrinking(Context& context, Group& group, uint64_t id)
      : groups_(context.groups()),
        executor_(context.executor()),
        bootstrap_(context.job().bootstrap()),
        survives_(context.job().survives_deaths()),
        me_(context.rank()),
        id_(id),
        name_(mix(group.identity().key, group.next_shrink())),
        members_(group.state().to_job.begin(), group.state().to_job.end()) {}

  Result<std::shared_ptr<Group>> run() {
    for (;; ++round_) {
      IBCOLL_ASSIGN(Try made, try_members());
      if (!survives_) return std::move(made.group);
      // Whoever comes to the barrier of a round has read the verdicts on those before.
      if (made.seen == kComplete) forget_verdicts_before(round_);
      IBCOLL_ASSIGN(const int64_t verdict, settle(made.seen));
      if (verdict == kComplete) {
        // Who dies now is in the new group.
        IBCOLL_ASSIGN(const bool all_know, meet(*made.group));
        if (all_know) forget_verdicts_before(round_ + 1);
        return std::move(made.group);
      }
      if (verdict == me_) {  // others could not reach its machine for long
        return fail(ErrorCode::kPeerFailed,
                    "rank {} counts as dead, and the others go on without it", me_);
      }
      leave_out(static_cast<Rank>(verdict));
    }
  }

 private:
  struct Try {
    std::shared_ptr<Group> group;  ///< whose barrier this rank was in; null where it was in none
    int64_t seen = kComplete;      ///< what this rank proposes
  };
  struct Patience {
    int64_t since_ns = now_ns(), next_report_ns = 0;
  };

  /// Whether a rank has left after a death. One that has can't have been in a try in which this one
  /// is not yet.
  bool has_gone(Rank rank) const {
    return !executor_.deaths().empty() && bootstrap_.has_left(rank);
  }

  /// Others may be in the barrier of this try, which this rank does not come to. Of a rank that has
  /// died all learn, but one that has left after a death may be missed by this one alone.
  Status end_try(Rank lost) {
    if (bootstrap_.end_of(lost)) return {};
    const Failure why = bootstrap_.absence(lost).value_or(death_of_member(lost));
    const Status ended = groups_.end_derived(members_, id_, origin(round_), why);
    return ended ? ended : tl::unexpected<Error>(executor_.give_up(ended.error()));
  }

  static Failure death_of_member(Rank rank) {
    return {rank, ErrorCode::kRankDied, fmt::format("rank {} has died", rank)};
  }

  /// A rank that the members have found dead, or gone, as this one may not have found yet.
  void leave_out(Rank rank) {
    std::erase(members_, rank);
    auto end = bootstrap_.end_of(rank);
    if (!end) end = bootstrap_.absence(rank);
    executor_.take_death(end.value_or(death_of_member(rank)));
  }

  Result<Try> try_members() {
    Try made;
    Patience patience;
    for (;;) {
      IBCOLL_TRY(executor_.find_deaths());
      const auto lost = std::find_if(members_.begin(), members_.end(), [&](Rank rank) {
        return executor_.has_lost(rank) || (!made.group && has_gone(rank));
      });
      if (lost != members_.end()) {
        if (!made.group) IBCOLL_TRY(end_try(*lost));
        made.seen = *lost;
        return made;
      }
      if (made.group) {
        // Another rank has ended it because of a death, which this one may never find by itself.
        if (const auto verdict = bootstrap_.verdict(origin(round_))) {
          made.seen = *verdict;
          return made;
        }
        IBCOLL_TRY(pause(patience));
        continue;
      }
      auto group = groups_.derive(members_, id_, origin(round_));
      if (!group) {
        if (group.error().code == ErrorCode::kPeerFailed) continue;  // just found out
        return tl::unexpected<Error>(executor_.give_up(group.error()));
      }
      made.group = std::move(*group);
      IBCOLL_ASSIGN(const bool complete, meet(*made.group));
      if (complete) return made;
    }
  }

  /// The verdict on this round.
  Result<int64_t> settle(int64_t seen) {
    const auto asked = bootstrap_.settle(origin(round_), seen);
    if (!asked) return tl::unexpected<Error>(executor_.give_up(asked.error()));
    std::optional<int64_t> verdict = *asked;
    Patience patience;
    while (!verdict) {
      // Another machine's rank that decides may be gone, and this one takes its place.
      IBCOLL_TRY(executor_.find_deaths());
      IBCOLL_TRY(pause(patience));
      verdict = bootstrap_.verdict(origin(round_));
    }
    return *verdict;
  }

  /// Lets a moment pass until this rank looks again for what others have to say.
  Status pause(Patience& patience) {
    Completion never;
    IBCOLL_TRY(executor_.wait(never, now_ns() + kLookNs));
    const int64_t waited_ns = now_ns() - patience.since_ns;
    const auto text = [&] {
      return fmt::format(
          "for {:.1f} s rank {} has been waiting in shrink() for what another rank has to say of "
          "the members of the new group",
          static_cast<double>(waited_ns) / 1e9, me_);
    };
    if (executor_.deadline_ns() > 0 && waited_ns >= executor_.deadline_ns()) {
      return tl::unexpected<Error>(
          executor_.give_up({ErrorCode::kDeadline, text() + ", the deadline (IBCOLL_DEADLINE)"}));
    }
    if (patience.next_report_ns == 0) patience.next_report_ns = executor_.late_ns();
    if (executor_.late_ns() > 0 && waited_ns >= patience.next_report_ns) {
      log().warn("{}", text());
      patience.next_report_ns *= 2;
    }
    return {};
  }

  /// Whether all members have come; not where the group is over because one of them has died.
  Result<bool> meet(Group& group) {
    const Status met = barrier(group);
    if (met) return true;
    if (executor_.failed()) return tl::unexpected<Error>(*executor_.failed());
    if (!group.state().over) return tl::unexpected<Error>(executor_.give_up(met.error()));
    return false;
  }

  static Status barrier(Group& group) {
    CallArguments arguments;
    arguments.collective = Collective::kBarrier;
    arguments.purpose = CallPurpose::kShrink;
    return make_inner_call(group, arguments);
  }

  /// One rank's task. Where it dies, or another member does so in the last barrier, one verdict
  /// stays.
  void forget_verdicts_before(uint64_t round) {
    if (members_.front() != me_) return;
    for (; forgotten_ < round; ++forgotten_) bootstrap_.forget_verdict(origin(forgotten_));
  }

  uint64_t origin(uint64_t round) const { return mix(name_, round) | 1; }

  Groups& groups_;
  Executor& executor_;
  Bootstrap& bootstrap_;
  const bool survives_;  ///< deaths
  const Rank me_;
  const uint64_t id_;
  const uint64_t name_;  ///< the same on all members, and of this call alone
  std::vector<Rank> members_;
  uint64_t round_ = 0, forgotten_ = 0;
};

}  // namespace

Result<std::shared_ptr<Group>> shrink(Context& context, Group& group, uint64_t id) {
  return Shrinking(context, group, id).run();
}

std::vector<Rank> failed_members(Context& context, Group& group) {
  context.executor().look_at_deaths();
  Bootstrap& bootstrap = context.job().bootstrap();
  const std::optional<Failure> failure = bootstrap.failure();
  std::vector<Rank> failed;
  const RankSpan members = group.state().to_job;
  for (size_t i = 0; i < members.size(); ++i) {
    const Rank rank = members[i];
    const bool ended_job =
        failure && failure->code == ErrorCode::kRankDied && failure->culprit == rank;
    if (ended_job || context.executor().has_lost(rank) || bootstrap.end_of(rank))
      failed.push_back(static_cast<Rank>(i));
  }
  return failed;
}

}  // namespace ibcoll
