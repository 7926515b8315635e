#include "engine/bootstrap/process_fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace ibcoll {
namespace {

/// The marked descriptors, a bit each: a forked child may take no lock and no memory. Descriptors
/// past the last one are inherited.
constexpr int kWords = 4096;
std::array<std::atomic<uint64_t>, kWords> g_marked{};

void replace_in_child() {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int word = 0; word < kWords; ++word) {
    const uint64_t bits = g_marked[word].load(std::memory_order_relaxed);
    for (int bit = 0; bits >> bit != 0 && bit < 64; ++bit) {
      const int fd = word * 64 + bit;
      if ((bits >> bit & 1) == 0) continue;
      // The number stays taken: whoever holds it may still close it.
      if (nothing >= 0)
        dup3(nothing, fd, O_CLOEXEC);
      else
        close(fd);
    }
  }
  if (nothing >= 0) close(nothing);
}

}  // namespace

void ProcessFd::mark(bool ours) const {
  if (!fd_.valid() || fd_.get() >= kWords * 64) return;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] { pthread_atfork(nullptr, nullptr, replace_in_child); });
  std::atomic<uint64_t>& word = g_marked[fd_.get() / 64];
  const uint64_t bit = uint64_t{1} << (fd_.get() % 64);
  if (ours)
    word.fetch_or(bit, std::memory_order_relaxed);
  else
    word.fetch_and(~bit, std::memory_order_relaxed);
}

}  // namespace ibcoll
