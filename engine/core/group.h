#pragma once
/// A set of ranks that makes collective calls.

#include <memory>
#include <vector>

#include "engine/core/call_plans.h"
#include "engine/core/check_mode.h"
#include "engine/core/group_records.h"
#include "engine/core/scratch_pool.h"
#include "engine/execute/executor.h"
#include "shm/transport.h"

namespace ibcoll {

class LateChecks;

/// What groups and their calls need of the context, which outlives them.
struct GroupServices {
  Executor& executor;
  shm::Transport& local;  ///< has the gates of groups
  ScratchPool& scratch;   ///< for calls to work in
  PlanSources& plan_sources;
  GroupRecords& records;
  CheckMode check_mode;     ///< whether the bytes of calls are checked
  LateChecks* late_checks;  ///< of calls that have ended; null: none is late
};

/// Lives as long as somebody has a share in it: its handle, and each of its calls.
class Group : public std::enable_shared_from_this<Group> {
 public:
  /// `me`: this rank of the job, one of the members. `hosts`: see CallPlans.
  Group(const GroupServices& services, Rank me, Shape shape, std::vector<Rank> members,
        std::vector<int>&& hosts, const GroupIdentity& identity);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Rank rank() const { return state_.me; }
  int size() const { return state_.shape.ranks(); }
  const Shape& shape() const { return state_.shape; }
  /// Of this rank.
  Rank rank_in_job() const { return state_.to_job[static_cast<size_t>(state_.me)]; }
  GroupState& state() { return state_; }
  const GroupIdentity& identity() const { return identity_; }
  const GroupServices& services() const { return services_; }
  CallPlans& plans() { return plans_; }
  /// The number of the next call of the group.
  uint32_t next_sequence() {
    ++*calls_of_list_;
    return Executor::next_sequence(state_);
  }
  /// The number of the next group that is made of what is left of this one.
  uint32_t next_shrink() { return shrinks_++; }

 private:
  const GroupServices& services_;
  GroupIdentity identity_;
  GroupState state_;
  CallPlans plans_;
  uint32_t shrinks_ = 0;
  uint32_t uncounted_ = 0;
  uint32_t* calls_of_list_ = &uncounted_;  ///< see GroupRecords::entered
};

}  // namespace ibcoll
