#include "engine/bootstrap/process_end.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

namespace ibcoll {
namespace {

constexpr auto kLongestEnd = std::chrono::milliseconds(500);

/// The first version of the kernel's struct pidfd_info, which headers of 2023 do not have.
struct PidfdInfo {
  uint64_t mask, cgroup;
  uint32_t ids[11];
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr uint64_t kInfoExit = 1 << 3;

// Numbers of fields, as proc(5) counts them.
constexpr int kState = 3, kMemoryBytes = 23, kCodeStart = 26, kStackStart = 28,
              kArgumentsStart = 48, kExitCode = 52;

std::optional<int> recorded_status(int pidfd) {
  PidfdInfo info{};
  info.mask = kInfoExit;
  if (ioctl(pidfd, _IOWR(0xFF, 11, PidfdInfo), &info) != 0 || (info.mask & kInfoExit) == 0)
    return std::nullopt;
  return info.exit_code;
}

/// Calls visit(number, field) for each field of the kernel's line on a process, from its state on,
/// as long as that gives true.
template <class Visit>
void for_each_field(pid_t pid, Visit&& visit) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int number = kState; fields >> field; ++number) {
    if (!visit(number, field)) return;
  }
}

/// Of a process that its parent has not taken yet.
std::optional<int> zombie_status(pid_t pid) {
  std::optional<int> status;
  for_each_field(pid, [&](int number, const std::string& field) {
    if (number == kExitCode) status = std::stoi(field);
    return number != kState || field == "Z";
  });
  return status;
}

}  // namespace

Failure death_of(Rank rank) {
  return {rank, ErrorCode::kRankDied, fmt::format("rank {} has died", rank)};
}

Failure end_of_rank(Rank rank, pid_t pid, std::optional<int> status) {
  Failure failure{rank, ErrorCode::kRankDied, {}};
  if (!status)
    failure.what = fmt::format("rank {} (pid {}) has died", rank, pid);
  else if (WIFSIGNALED(*status))
    failure.what = fmt::format("rank {} (pid {}) was killed by signal {} ({})", rank, pid,
                               WTERMSIG(*status), strsignal(WTERMSIG(*status)));
  else
    failure.what =
        fmt::format("rank {} (pid {}) ended with status {}", rank, pid, WEXITSTATUS(*status));
  return failure;
}

std::optional<ProgramPlace> program_of(pid_t pid) {
  ProgramPlace place;
  bool has_memory = false, whole = false;
  for_each_field(pid, [&](int number, const std::string& field) {
    const auto value = [&field] { return std::strtoull(field.c_str(), nullptr, 10); };
    if (number == kMemoryBytes) has_memory = value() != 0;
    if (number == kCodeStart) place.code = value();
    if (number == kStackStart) place.stack = value();
    if (number == kArgumentsStart) place.arguments = value();
    whole = number == kArgumentsStart;
    return !whole;
  });
  // A process that ends gives its memory back before it closes anything.
  if (!has_memory || !whole) return std::nullopt;
  return place;
}

std::optional<Failure> left_by_living(Rank rank, pid_t pid, int pidfd,
                                      const std::optional<ProgramPlace>& before) {
  const std::optional<ProgramPlace> now = program_of(pid);
  pollfd end{pidfd, POLLIN, 0};
  // In this order: of a process that has not ended by now it was the line.
  if (!now || pidfd < 0 || poll(&end, 1, 0) != 0) return std::nullopt;
  const bool same = !before || *now == *before;
  return Failure{rank, ErrorCode::kPeerFailed,
                 fmt::format("rank {} (pid {}) has {}", rank, pid,
                             same ? "closed its connection to the job and goes on"
                                  : "executed another program")};
}

std::optional<int> status_of_ended(pid_t pid, int pidfd) {
  const auto until = std::chrono::steady_clock::now() + kLongestEnd;
  do {
    if (const auto status = pidfd >= 0 ? recorded_status(pidfd) : std::nullopt) return status;
    if (const auto status = zombie_status(pid)) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (std::chrono::steady_clock::now() < until);
  return std::nullopt;
}

}  // namespace ibcoll
