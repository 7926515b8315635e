#pragma once
/// What this machine has and what it lets a process do: everything that decides how fast ranks on
/// it can exchange data.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

/// Caches of one kind; `name` as hwloc says it ("L1d", "L2", "L3").
struct CacheInfo {
  std::string name;
  uint64_t bytes = 0;
  int count = 0;
  int cores_each = 0;  ///< cores that share one
};

struct NumaInfo {
  int number = 0;
  uint64_t bytes = 0;
  int cores = 0;
};

struct MachineInfo {
  std::string name, kernel, processor;
  int packages = 0, cores = 0, threads = 0;
  int usable_cores = 0;  ///< by this process's affinity mask
  std::vector<CacheInfo> caches;
  std::vector<NumaInfo> numa;
  uint64_t memory_bytes = 0, available_bytes = 0;
};
Result<MachineInfo> machine_info();

/// What MachineInfo::processor says, and how many hardware threads are online, without looking at
/// all the rest.
std::string processor_name();
int online_processors();

/// Limits of this process; nothing stands for "unlimited" or, where it says so, "not there".
struct LimitInfo {
  std::optional<uint64_t> locked_bytes, locked_bytes_hard;
  std::optional<uint64_t> address_space_bytes;
  std::optional<uint64_t> open_files, open_files_hard;
  std::optional<int> yama_ptrace_scope;  ///< nothing: the kernel has no Yama
  uint64_t huge_page_bytes = 0, huge_pages = 0, huge_pages_free = 0;
  std::string transparent_huge_pages, transparent_huge_pages_shared;  ///< the setting; "" not there
};
LimitInfo limit_info();

/// Tries whether ranks that launch_processes() starts may copy from each other's memory
/// (process_vm_readv). The reason where not, empty where they may.
Result<std::string> why_no_direct_copy();

struct RdmaPortInfo {
  std::string device;
  int port = 0;
  std::string state, rate, link_layer;  ///< as the kernel says it, e.g. "4: ACTIVE"
  std::string lid;
  std::string firmware;
};
/// The ports of all RDMA devices the kernel knows.
std::vector<RdmaPortInfo> rdma_ports();

}  // namespace ibcoll
