#pragma once
/// Notices the death of peers on this machine.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/bootstrap/machine.h"

namespace ibcoll {

/// A pidfd: readable once the process has ended. Invalid (errno says why) where there is none.
UniqueFd open_process(pid_t pid);
/// The same of a process that has not ended, else an invalid one; an error where that can't be
/// found out. Its id may have passed on to another process by now.
Result<UniqueFd> watch_process(const WatchedProcess& process);

/// Watches processes by pidfd: a bare process id may already be another process's.
class PeerWatch {
 public:
  /// What has ended by now counts as ended.
  static Result<PeerWatch> create(std::span<const WatchedProcess> processes);

  /// A watched rank that has ended, if there is one; each of several in turn. One system call,
  /// however many are watched. A rank that has ended in order counts too: ask only while waiting
  /// for it.
  std::optional<Rank> find_dead();

  /// True if that rank is watched and has ended.
  bool has_ended(Rank rank) const;

  /// find_dead() does not give that rank any more.
  void forget(Rank rank);

 private:
  struct Watched {
    Rank rank;
    UniqueFd process;
  };

  UniqueFd ended_;  ///< epoll over those that had not ended
  std::vector<Watched> processes_;
  std::vector<Rank> before_;  ///< the others
  size_t asked_ = 0;          ///< so that nobody keeps others from being found
};

}  // namespace ibcoll
