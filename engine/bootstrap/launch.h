#pragma once
/// Starting the ranks of a job on this machine.

#include <cstdint>
#include <functional>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// What a rank runs; the result is its exit status.
using RankMain = std::function<int(Bootstrap&)>;

struct LaunchOptions {
  int ranks = 1;
  /// Bind each rank to a core (hwloc); ranks in excess of the cores share them in turn.
  bool bind = true;
  /// How long ranks may go on after a failure was reported, before they are killed.
  int64_t grace_ns = 5'000'000'000;
  /// Ranks may go on for ever after another one has died, and how one was killed is no result of
  /// the launch's unless all were.
  bool keep_survivors = false;
  /// Called in the launching process when a rank fails or reports a failure: once, and again where
  /// the job ends although ranks were kept. Empty: one line is logged. Ranks therefore need not
  /// print that another one died.
  std::function<void(const Failure&)> on_failure;
};

/// The most ranks one launch takes.
inline constexpr int kMaxLaunchRanks = 4096;

/// Forks one process a rank and waits for all. Returns 0 if every rank returned 0, else the first
/// status that was not: 128 + N for a rank killed by signal N. When a rank dies or returns another
/// status, the others are told through Bootstrap::failure() and get some seconds to end by
/// themselves; then they are killed, unless they are to survive a death. SIGINT, SIGTERM and SIGHUP
/// end all ranks, the result is then 128 + signal; no process outlives the caller, not even when
/// the caller is killed. Call it while this process has one thread.
Result<int> launch_processes(const LaunchOptions& options, const RankMain& main);

/// Runs the ranks as threads of this process: for tests under the thread sanitizer.
Result<int> launch_threads(int ranks, const RankMain& main);

/// How many cores this process may use, as hwloc and the affinity mask saw it when it was first
/// asked: ranks that are bound to one core still see what their launcher saw.
int usable_cores();

}  // namespace ibcoll
