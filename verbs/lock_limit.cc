#include "verbs/lock_limit.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "engine/base/units.h"

namespace ibcoll::verbs {

namespace {

/// What part of its share of the machine's memory a rank should be able to lock. Machines for RDMA
/// let it lock all of that or about as much, others the kernel's 8 MB.
constexpr uint64_t kPart = 16;

/// The kernel does not count what such a process locks.
bool may_lock_anything() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capget, &header, sets) == 0 &&
         (sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

}  // namespace

std::optional<uint64_t> lockable_bytes() {
  rlimit limit{};
  if (may_lock_anything() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return std::nullopt;
  if (limit.rlim_cur != limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_MEMLOCK, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

std::string too_little_lockable(std::optional<uint64_t> lockable, uint64_t memory_bytes,
                                int ranks) {
  const uint64_t share = memory_bytes / static_cast<uint64_t>(std::max(ranks, 1));
  if (!lockable || *lockable >= share / kPart) return {};
  return fmt::format(
      "a process may lock {} of memory here (ulimit -l), where its share of the machine's is {}",
      format_size(static_cast<int64_t>(*lockable)), format_size(static_cast<int64_t>(share)));
}

Error declined(Error error, bool may_decline) {
  if (may_decline && error.code == ErrorCode::kNoMemory && lockable_bytes())
    error.code = ErrorCode::kUnsupported;
  return error;
}

}  // namespace ibcoll::verbs
