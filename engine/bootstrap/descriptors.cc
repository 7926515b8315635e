#include "engine/bootstrap/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

namespace ibcoll {
namespace {

/// Numbers of descriptors count, not how many there are: the highest one that is open, plus one.
size_t files_in_use() {
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  size_t used = 0;
  while (const dirent* entry = readdir(directory))
    used = std::max<size_t>(used, std::strtoul(entry->d_name, nullptr, 10) + 1);
  closedir(directory);
  return used;
}

}  // namespace

void make_room_for_files(size_t more) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  const rlim_t wanted = std::min<rlim_t>(files_in_use() + more, limit.rlim_max);
  if (wanted <= limit.rlim_cur) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

tl::unexpected<Error> fail_opening(const std::string& what) {
  if (errno != EMFILE) return fail_errno(what);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return fail(ErrorCode::kSystem,
              "{}: this process has as many open files as it may have, {} (hard limit {}: ulimit "
              "-Hn, or LimitNOFILE of the service that starts it)",
              what, limit.rlim_cur, limit.rlim_max);
}

}  // namespace ibcoll
