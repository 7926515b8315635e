#pragma once
/// Notices the death of peers on this machine.

#include <optional>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/bootstrap/machine.h"

namespace ibcoll {

/// A pidfd: readable once the process has ended. Invalid (errno says why) where there is none.
UniqueFd open_process(pid_t pid);

/// Watches processes by pidfd: a bare process id may already be another process's. Not needed where
/// a launcher of ours reports deaths; for jobs that somebody else started.
class PeerWatch {
 public:
  /// Collective over all ranks of the job, while all are alive. Watches the ranks on this machine,
  /// this process excepted; places as exchange_places() gave them.
  static Result<PeerWatch> create(Bootstrap& bootstrap, const std::vector<ProcessPlace>& places);

  /// A watched rank that has ended, if there is one. One system call, however many are watched; not
  /// one where none is. A rank that has ended in order counts too: ask only while waiting for it.
  std::optional<Rank> find_dead() const;

  /// True if that rank is watched and has ended, or does so within `wait_ms`.
  bool has_ended(Rank rank, int wait_ms = 0) const;

  /// find_dead() does not give that rank any more.
  void forget(Rank rank);

  /// How many ranks are watched.
  int watched() const { return watched_; }

 private:
  UniqueFd ended_;                   ///< epoll over processes_
  std::vector<UniqueFd> processes_;  ///< by rank; invalid for those not watched
  int watched_ = 0;
};

}  // namespace ibcoll
