#include "engine/bootstrap/machine_info.h"

#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/bootstrap/hwloc_topology.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"

namespace ibcoll {
namespace {

/// The first line of a small file, "" where there is none.
std::string read_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The value behind `name` in a file of "name : value" lines.
std::string read_field(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string::npos) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

/// A number from /proc/meminfo.
uint64_t meminfo(std::string_view name) {
  return std::strtoull(read_field("/proc/meminfo", name).c_str(), nullptr, 10);
}

/// The choice in brackets: "always [madvise] never".
std::string chosen(const std::string& choices) {
  const size_t open = choices.find('['), close = choices.find(']');
  if (open == std::string::npos || close == std::string::npos) return choices;
  return choices.substr(open + 1, close - open - 1);
}

std::pair<std::optional<uint64_t>, std::optional<uint64_t>> limits_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return {};
  const auto bounded = [](rlim_t value) {
    return value == RLIM_INFINITY ? std::nullopt : std::optional<uint64_t>(value);
  };
  return {bounded(limit.rlim_cur), bounded(limit.rlim_max)};
}

int count(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(hwloc_get_nbobjs_by_type(topology, type), 0);
}

int cores_in(hwloc_topology_t topology, hwloc_const_cpuset_t set) {
  const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, set, HWLOC_OBJ_CORE);
  return cores > 0 ? cores : hwloc_get_nbobjs_inside_cpuset_by_type(topology, set, HWLOC_OBJ_PU);
}

std::vector<CacheInfo> caches_of(hwloc_topology_t topology) {
  std::vector<CacheInfo> caches;
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                                      HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE}) {
    const hwloc_obj_t first = hwloc_get_obj_by_type(topology, type, 0);
    if (first == nullptr) continue;
    std::array<char, 32> name{};
    hwloc_obj_type_snprintf(name.data(), name.size(), first, 0);
    caches.push_back({name.data(), first->attr->cache.size, count(topology, type),
                      cores_in(topology, first->cpuset)});
  }
  return caches;
}

}  // namespace

std::string processor_name() { return read_field("/proc/cpuinfo", "model name"); }

int online_processors() { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }

Result<MachineInfo> machine_info() {
  IBCOLL_ASSIGN(const HwlocTopology topology, load_hwloc_topology());
  MachineInfo info;
  utsname system{};
  uname(&system);
  info.name = system.nodename;
  info.kernel = fmt::format("{} {}", system.sysname, system.release);
  info.processor = processor_name();
  info.packages = count(topology.get(), HWLOC_OBJ_PACKAGE);
  info.threads = count(topology.get(), HWLOC_OBJ_PU);
  info.cores = cores_in(topology.get(), hwloc_topology_get_topology_cpuset(topology.get()));
  info.usable_cores = usable_cores();
  info.caches = caches_of(topology.get());
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    info.numa.push_back({static_cast<int>(node->os_index), node->attr->numanode.local_memory,
                         cores_in(topology.get(), node->cpuset)});
  }
  info.memory_bytes = meminfo("MemTotal") * 1024;
  info.available_bytes = available_memory();
  return info;
}

LimitInfo limit_info() {
  LimitInfo info;
  std::tie(info.locked_bytes, info.locked_bytes_hard) = limits_of(RLIMIT_MEMLOCK);
  info.address_space_bytes = limits_of(RLIMIT_AS).first;
  std::tie(info.open_files, info.open_files_hard) = limits_of(RLIMIT_NOFILE);
  if (const std::string scope = read_line("/proc/sys/kernel/yama/ptrace_scope"); !scope.empty())
    info.yama_ptrace_scope = std::atoi(scope.c_str());
  info.huge_page_bytes = meminfo("Hugepagesize") * 1024;
  info.huge_pages = meminfo("HugePages_Total");
  info.huge_pages_free = meminfo("HugePages_Free");
  info.transparent_huge_pages = chosen(read_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  info.transparent_huge_pages_shared =
      chosen(read_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  return info;
}

Result<std::string> why_no_direct_copy() {
  LaunchOptions options;
  options.ranks = 2;
  options.bind = false;
  options.on_failure = [](const Failure&) {};  // its status says it
  IBCOLL_ASSIGN(const int status, launch_processes(options, [](Bootstrap& bootstrap) -> int {
                  struct Place {
                    int64_t pid;
                    uint64_t address;
                  };
                  const uint64_t value = 1;
                  const Place mine{getpid(), reinterpret_cast<uint64_t>(&value)};
                  std::array<Place, 2> all{};
                  if (!bootstrap.allgather(&mine, sizeof mine, all.data())) return EIO;
                  const Place& peer = all[static_cast<size_t>(1 - bootstrap.rank())];
                  uint64_t copy = 0;
                  const iovec to{&copy, sizeof copy};
                  const iovec from{reinterpret_cast<void*>(peer.address), sizeof copy};
                  const ssize_t copied =
                      process_vm_readv(static_cast<pid_t>(peer.pid), &to, 1, &from, 1, 0);
                  const int error = copied == sizeof copy ? 0 : errno;
                  if (!bootstrap.barrier()) return EIO;
                  return error;
                }));
  return status == 0 ? std::string() : std::string(std::strerror(status));
}

std::vector<RdmaPortInfo> rdma_ports() {
  namespace fs = std::filesystem;
  std::vector<RdmaPortInfo> ports;
  std::error_code none;
  for (const auto& device : fs::directory_iterator("/sys/class/infiniband", none)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", none)) {
      ports.push_back({device.path().filename(), std::atoi(port.path().filename().c_str()),
                       read_line(port.path() / "state"), read_line(port.path() / "rate"),
                       read_line(port.path() / "link_layer"), read_line(port.path() / "lid"),
                       read_line(device.path() / "fw_ver")});
    }
  }
  std::sort(ports.begin(), ports.end(), [](const RdmaPortInfo& a, const RdmaPortInfo& b) {
    return std::tie(a.device, a.port) < std::tie(b.device, b.port);
  });
  return ports;
}

}  // namespace ibcoll
