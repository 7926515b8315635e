#include "engine/bootstrap/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

namespace ibcoll {
namespace {

/// Calls visit(number) for each file that is open, but for the folder that says so.
template <class Visitor>
void for_each_file(Visitor&& visit) {
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    const int number = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && number != dirfd(directory)) visit(number);
  }
  closedir(directory);
}

/// Numbers of descriptors count, not how many there are: the highest one that is open, plus one.
size_t numbers_in_use() {
  size_t used = 0;
  for_each_file([&](int number) { used = std::max(used, static_cast<size_t>(number) + 1); });
  return used;
}

}  // namespace

size_t open_files() {
  size_t count = 0;
  for_each_file([&](int) { ++count; });
  return count;
}

void make_room_for_files(size_t more) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  const rlim_t wanted = std::min<rlim_t>(numbers_in_use() + more, limit.rlim_max);
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
