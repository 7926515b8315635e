#include "engine/core/group_shrink.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
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
        me_(context.rank()),
        id_(id),
        name_(mix(group.identity().key, group.next_shrink())),
        members_(group.state().to_job.begin(), group.state().to_job.end()) {
    if (context.job().survives_deaths()) verdicts_ = context.job().verdicts();
  }

  Result<std::shared_ptr<Group>> run() {
    for (;; ++round_) {
      IBCOLL_ASSIGN(Try made, try_members());
      if (!verdicts_) return std::move(made.group);
      // Whoever comes to the barrier of a round has read the verdicts on those before.
      if (made.seen == kComplete) forget_verdicts_before(round_);
      const auto verdict = verdicts_->settle(origin(round_), made.seen);
      if (!verdict) return tl::unexpected<Error>(executor_.give_up(verdict.error()));
      if (*verdict == kComplete) {
        // Who dies now is in the new group.
        IBCOLL_ASSIGN(const bool all_know, meet(*made.group));
        if (all_know) forget_verdicts_before(round_ + 1);
        return std::move(made.group);
      }
      std::erase(members_, static_cast<Rank>(*verdict));
    }
  }

 private:
  struct Try {
    std::shared_ptr<Group> group;  ///< whose barrier this rank was in; null where it was in none
    int64_t seen = kComplete;      ///< what this rank proposes
  };

  Result<Try> try_members() {
    Try made;
    for (;;) {
      IBCOLL_TRY(executor_.find_deaths());
      const auto lost = std::find_if(members_.begin(), members_.end(),
                                     [this](Rank rank) { return executor_.has_lost(rank); });
      if (lost != members_.end()) {
        made.seen = *lost;
        return made;
      }
      if (made.group) {
        // Another rank has ended it because of a death, which this one may never find by itself.
        if (const auto verdict = verdicts_->find(origin(round_))) {
          made.seen = *verdict;
          return made;
        }
        Completion never;
        IBCOLL_TRY(executor_.wait(never, now_ns() + kLookNs));
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
    for (; forgotten_ < round; ++forgotten_) verdicts_->forget(origin(forgotten_));
  }

  uint64_t origin(uint64_t round) const { return mix(name_, round) | 1; }

  Groups& groups_;
  Executor& executor_;
  std::optional<Verdicts> verdicts_;  ///< none where a death ends the job
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
