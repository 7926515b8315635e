#pragma once
/// Which ranks run on one machine, and how much memory that machine has left.

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/digest.h"
#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// What tells a machine from another, containers included: processes whose identities are equal
/// share memory by file descriptor and know each other by process id.
using MachineId = Digest;

/// Of the kernel's boot id and of the namespaces that process ids and abstract sockets live in.
/// Asked for anew each time: a process may change its namespaces, and its children's.
MachineId this_machine();

/// Of the kernel's boot id: whoever has the same goes by the same clock, be it in another
/// container.
Digest this_kernel();

/// The number of the namespace that this process's id is one of.
uint64_t pid_namespace();

/// When a process was started, in the kernel's ticks: no other process has had its id then. 0 where
/// the kernel does not say.
uint64_t process_start(pid_t pid);

/// The process of a rank, by what no other one of its machine has.
struct WatchedProcess {
  Rank rank = -1;  ///< of the job
  pid_t pid = 0;
  uint64_t start = 0;  ///< process_start() of it
};

/// Where a rank lives on its machine.
struct ProcessPlace {
  WatchedProcess process;
  cpu_set_t processors{};  ///< that its affinity mask allows
};

/// That of this process, which is that rank of its job.
ProcessPlace this_place(Rank rank);

std::vector<WatchedProcess> processes_at(std::span<const ProcessPlace> places);

/// Where the ranks of a job live.
struct JobPlaces {
  /// Of each rank. Machines are numbered 0, 1, ... in the order of their lowest ranks.
  std::vector<int> machines;
  std::vector<ProcessPlace> here;  ///< of the ranks of this machine, in ascending order
};

/// Collective, for those that have no context, whose ranks tell each other less: each holds all
/// places of the job meanwhile.
Result<JobPlaces> exchange_places(Bootstrap& bootstrap);

/// The NUMA node of the cores this process may run on; -1 if they are on several, or unknown.
int own_numa_node();

/// Whether a machine's ranks, whose places these are, outnumber the processors they may all in all
/// run on. The same on every one of them, each of which may be bound to a processor of its own.
bool oversubscribed(std::span<const ProcessPlace> places);

/// Bytes that can be had without swapping: what the kernel says is available, at most what this
/// process's memory cgroup leaves.
uint64_t available_memory();

}  // namespace ibcoll
