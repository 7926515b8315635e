#include "engine/execute/deadlines.h"

#include "engine/base/clock.h"
#include "engine/execute/waits.h"

namespace ibcoll {

Deadlines::Deadlines(const LocalTransport& local, GroupEnds& ends) : local_(local), ends_(ends) {}
Deadlines::~Deadlines() = default;

void Deadlines::check_all() {
  const int64_t now = now_ns();
  for (PostedCall* const call : calls_) {
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

}  // namespace ibcoll
