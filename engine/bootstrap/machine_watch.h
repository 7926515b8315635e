#pragma once
/// Which ranks have died.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/bootstrap/peer_watch.h"

namespace ibcoll {

/// Goes by what whoever watches the ranks of the machine notes of their ends (Bootstrap::end_of),
/// so that one process a machine holds a file for each rank, and not all of them. Ranks that nobody
/// watches, or nobody any more, this process watches itself: a job's leaders may lead parts of a
/// machine, as containers are, and tell each other of no death that ends the job. Ranks of other
/// machines have died where that was noted.
class MachineWatch {
 public:
  MachineWatch() = default;
  /// `processes`: of the ranks of this machine, of which this process's own are left out. The
  /// bootstrap must outlive it.
  MachineWatch(const Bootstrap& bootstrap, std::span<const WatchedProcess> processes);

  /// A rank that has died, if there is one; one that has ended in order may count, too: ask only
  /// while waiting for it. While others watch all of them, it looks after those others now and
  /// then (Bootstrap::failure) and makes no other system call.
  std::optional<Rank> find_dead();
  /// True if that rank of this machine has ended, or does so within `wait_ms`.
  bool has_ended(Rank rank, int wait_ms = 0);
  /// find_dead() does not give that rank any more.
  void forget(Rank rank);

  /// What it holds for each rank of the machine.
  static constexpr size_t bytes_each_peer() { return sizeof(WatchedProcess); }

 private:
  /// This process's own; null while it need not watch, or can't.
  PeerWatch* own_watch();

  const Bootstrap* bootstrap_ = nullptr;
  std::vector<WatchedProcess> peers_;
  std::vector<Rank> forgotten_;
  uint32_t looked_ = 0;  ///< how many ends had been noted when none of them was news
  std::optional<PeerWatch> own_;
  bool of_all_ = false;  ///< of peers_; else of those that nobody else watches
  bool failed_ = false;  ///< it can't watch
};

}  // namespace ibcoll
