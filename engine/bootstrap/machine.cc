#include "engine/bootstrap/machine.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace ibcoll {
namespace {

/// The kernel's boot id.
using BootId = std::array<char, 40>;

BootId boot_id() {
  BootId id{};
  std::ifstream("/proc/sys/kernel/random/boot_id").read(id.data(), id.size() - 1);
  return id;
}

uint64_t namespace_number(const char* path) {
  struct stat info {};
  return stat(path, &info) == 0 ? info.st_ino : 0;
}

std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // also where the file says "max"
}

/// -1: unknown.
int node_of_core(int core) {
  namespace fs = std::filesystem;
  std::error_code none;
  constexpr std::string_view kPrefix = "node";
  for (const auto& entry :
       fs::directory_iterator("/sys/devices/system/cpu/cpu" + std::to_string(core), none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kPrefix)) return std::atoi(name.c_str() + kPrefix.size());
  }
  return -1;
}

/// What the cgroup at `directory` and its parents leave, of version 2.
uint64_t cgroup_memory_left() {
  uint64_t left = std::numeric_limits<uint64_t>::max();
  std::ifstream cgroups("/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string path = line.substr(3); !path.empty(); path.resize(path.rfind('/'))) {
      const std::string directory = "/sys/fs/cgroup" + path;
      const auto limit = read_number(directory + "/memory.max");
      const auto used = read_number(directory + "/memory.current");
      if (limit && used) left = std::min(left, *limit - std::min(*limit, *used));
    }
  }
  return left;
}

}  // namespace

MachineId this_machine() {
  struct {
    BootId boot;
    uint64_t pids, sockets;
  } const machine{boot_id(), pid_namespace(), namespace_number("/proc/self/ns/net")};
  return digest_of_value(machine);
}

Digest this_kernel() { return digest_of_value(boot_id()); }

uint64_t pid_namespace() { return namespace_number("/proc/self/ns/pid"); }

uint64_t process_start(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  // Behind the name in brackets, which may hold anything, come the state and 18 other numbers.
  constexpr int kBefore = 19;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < kBefore; ++i) rest >> skipped;
  uint64_t start = 0;
  rest >> start;
  return rest ? start : 0;
}

ProcessPlace this_place(Rank rank) {
  ProcessPlace place{{rank, getpid(), process_start(getpid())}, {}};
  if (sched_getaffinity(0, sizeof place.processors, &place.processors) != 0)
    CPU_SET(0, &place.processors);  // more processors than a set holds: count too few
  return place;
}

std::vector<WatchedProcess> processes_at(std::span<const ProcessPlace> places) {
  std::vector<WatchedProcess> processes;
  processes.reserve(places.size());
  for (const ProcessPlace& place : places) processes.push_back(place.process);
  return processes;
}

Result<JobPlaces> exchange_places(Bootstrap& bootstrap) {
  struct Record {
    MachineId machine;
    ProcessPlace place;
  };
  const Record mine{this_machine(), this_place(bootstrap.rank())};
  std::vector<Record> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  const MachineId own = all[static_cast<size_t>(bootstrap.rank())].machine;
  JobPlaces places;
  std::vector<MachineId> machines;
  machines.reserve(all.size());
  for (const Record& record : all) {
    machines.push_back(record.machine);
    if (record.machine == own) places.here.push_back(record.place);
  }
  places.machines = number_distinct(machines).numbers;
  return places;
}

int own_numa_node() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return -1;
  int found = -1;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores)) continue;
    const int node = node_of_core(core);
    if (node < 0 || (found >= 0 && node != found)) return -1;
    found = node;
  }
  return found;
}

bool oversubscribed(std::span<const ProcessPlace> places) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const ProcessPlace& place : places) CPU_OR(&all, &all, &place.processors);
  return places.size() > static_cast<size_t>(CPU_COUNT(&all));
}

uint64_t available_memory() {
  uint64_t available = std::numeric_limits<uint64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string name, unit; meminfo >> name;) {
    uint64_t kibibytes = 0;
    meminfo >> kibibytes;
    std::getline(meminfo, unit);
    if (name == "MemAvailable:") available = kibibytes * 1024;
  }
  return std::min(available, cgroup_memory_left());
}

}  // namespace ibcoll
