#include "engine/bootstrap/process_end.h"

#include <sys/ioctl.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
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

std::optional<int> recorded_status(int pidfd) {
  PidfdInfo info{};
  info.mask = kInfoExit;
  if (ioctl(pidfd, _IOWR(0xFF, 11, PidfdInfo), &info) != 0 || (info.mask & kInfoExit) == 0)
    return std::nullopt;
  return info.exit_code;
}

/// Of a process that its parent has not taken yet.
std::optional<int> zombie_status(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  constexpr int kState = 3, kExitCode = 52;
  std::string field;
  for (int number = kState; fields >> field; ++number) {
    if (number == kState && field != "Z") return std::nullopt;
    if (number == kExitCode) return std::stoi(field);
  }
  return std::nullopt;
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
