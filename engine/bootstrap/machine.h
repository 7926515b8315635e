#pragma once
/// Which ranks run on one machine, and how much memory that machine has left.

#include <sched.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// What tells a machine from another, containers included: processes whose identities are equal
/// share memory by file descriptor and know each other by process id.
struct MachineId {
  std::array<char, 40> boot{};  ///< the kernel's boot id
  uint64_t pid_namespace = 0;
  uint64_t net_namespace = 0;  ///< abstract sockets live in it
  bool operator==(const MachineId&) const = default;
};

MachineId this_machine();

/// When a process was started, in the kernel's ticks: no other process has had its id then. 0 where
/// the kernel does not say.
uint64_t process_start(pid_t pid);

/// Where a rank lives.
struct ProcessPlace {
  MachineId machine;
  int64_t pid = 0;
  uint64_t start = 0;      ///< process_start() of it
  cpu_set_t processors{};  ///< that its affinity mask allows
};

/// This process's.
ProcessPlace this_place();

/// Collective: the place of every rank.
Result<std::vector<ProcessPlace>> exchange_places(Bootstrap& bootstrap);

/// Numbers the machines 0, 1, ... in the order of their lowest rank: the machine of each rank.
std::vector<int> machine_of_ranks(const std::vector<ProcessPlace>& places);

/// The NUMA node of the cores this process may run on; -1 if they are on several, or unknown.
int own_numa_node();

/// Whether a machine's ranks outnumber the processors they may all in all run on. The same on every
/// rank of the machine, each of which may be bound to a processor of its own.
bool oversubscribed(const std::vector<ProcessPlace>& places, const std::vector<int>& machines,
                    int machine);

/// Bytes that can be had without swapping: what the kernel says is available, at most what this
/// process's memory cgroup leaves.
uint64_t available_memory();

}  // namespace ibcoll
