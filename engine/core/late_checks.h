#pragma once
/// Checks of calls that have ended, whose verdicts come with a later call (IBCOLL_CHECK=late).

#include <memory>
#include <vector>

#include "engine/core/data_check.h"

namespace ibcoll {

class LateChecks {
 public:
  /// The data of a call has come: its check goes on by itself. From inside of progress.
  Status add(std::unique_ptr<DataCheck> check, Group& group, uint32_t sequence);
  /// Makes progress, unless all of the group that have numbers before `sequence` are through; tells
  /// whether they are.
  Result<bool> test(Group& group, uint32_t sequence);
  /// Waits until they are. Fails where the job ends.
  Status settle(Group& group, uint32_t sequence);
  /// Waits for all of the group's, which is to be freed.
  Status settle(Group& group) { return settle(group, group.state().calls.taken()); }
  /// The same of all groups.
  Status settle_all(Executor& executor);

 private:
  struct Late {
    std::unique_ptr<DataCheck> check;
    Group* group = nullptr;
    uint32_t sequence = 0;
    Completion completion;
    static void after_exchange(void* late);
  };
  std::shared_ptr<Late> first_open(const Group& group, uint32_t sequence);

  /// Threads that wait keep theirs.
  std::vector<std::shared_ptr<Late>> open_;
};

}  // namespace ibcoll
