#include "engine/base/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/unique_fd.h"
#include "engine/base/units.h"

namespace ibcoll {

Result<std::string> read_input(const std::string& path, size_t limit) {
  const auto cannot = [&](const char* why) {
    return fail(ErrorCode::kInput, "can't read {}: {}", path, why);
  };
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return cannot(std::strerror(errno));
  if (S_ISDIR(about.st_mode)) return cannot("it is a directory");
  if (!S_ISREG(about.st_mode) && !S_ISFIFO(about.st_mode))
    return cannot("it is a device or socket, not a file or pipe");
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return cannot(std::strerror(errno));
  const auto too_large = [&] {
    return fail(ErrorCode::kInput, "{} has more than {} bytes, the limit of input files", path,
                format_size(static_cast<int64_t>(limit)));
  };
  if (S_ISREG(about.st_mode) && static_cast<uint64_t>(about.st_size) > limit) return too_large();
  std::string text;
  constexpr size_t kChunk = 1 << 16;
  while (true) {
    const size_t had = text.size();
    text.resize(had + std::max(kChunk, S_ISREG(about.st_mode) && had == 0
                                           ? static_cast<size_t>(about.st_size) + 1
                                           : had / 2));
    const ssize_t got = read(file.get(), text.data() + had, text.size() - had);
    if (got < 0 && errno != EINTR) return cannot(std::strerror(errno));
    text.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (text.size() > limit) return too_large();
    if (got == 0) return text;
  }
}

}  // namespace ibcoll
