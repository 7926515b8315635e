#pragma once
/// Starting the ranks of a job on this machine.

#include <functional>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// What a rank runs; the result is its exit status.
using RankMain = std::function<int(Bootstrap&)>;

struct LaunchOptions {
  int ranks = 1;
  bool bind =
      true;  ///< bind each rank to a core (hwloc); ranks in excess of the cores share them in turn
};

/// Forks one process a rank and waits for all. Returns 0 if every rank returned 0, else the first
/// status that was not. When a rank dies, the others are told through Bootstrap::failure() and get
/// some seconds to end by themselves; then they are killed. SIGINT and SIGTERM end all ranks; no
/// process outlives the caller, not even when the caller is killed.
Result<int> launch_processes(const LaunchOptions& options, const RankMain& main);

/// Runs the ranks as threads of this process: for tests under the thread sanitizer.
Result<int> launch_threads(int ranks, const RankMain& main);

/// How many cores this process may use, as hwloc and the affinity mask see it.
int usable_cores();

}  // namespace ibcoll
