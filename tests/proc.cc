#include "tests/proc.h"

#include <malloc.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "engine/base/input.h"

namespace ibcoll::testing {
namespace {

/// Some of what a file "stat" holds.
struct ThreadStat {
  char state = 0;      ///< 0: it is gone
  uint64_t flags = 0;  ///< the kernel's PF_
};
ThreadStat read_stat(const std::filesystem::path& file) {
  const std::string text = read_input(file).value_or("");
  ThreadStat stat;
  // A name, which may hold anything, stands in parentheses.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return stat;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  fields >> stat.state;
  for (int field = 0; field < 5; ++field) fields >> skipped;
  fields >> stat.flags;
  return stat;
}

}  // namespace

bool is_stopped(pid_t process) {
  return read_stat("/proc/" + std::to_string(process) + "/stat").state == 'T';
}

int running_threads() {
  constexpr uint64_t kExiting = 4;  // PF_EXITING
  int count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const ThreadStat stat = read_stat(thread.path() / "stat");
    if (stat.state != 0 && (stat.flags & kExiting) == 0) ++count;
  }
  return count;
}

int threads_of_its_own() {
#if defined(__SANITIZE_THREAD__)
  std::thread([] {}).join();
  return running_threads();
#else
  return 1;
#endif
}

size_t anonymous_bytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    size_t kilobytes = 0;
    if (word == "RssAnon:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

size_t resident_bytes(const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  size_t bytes = 0;
  bool named = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ') && line.find(':') > line.find(' ')) {  // begins a mapping
      named = line.find(name) != std::string::npos;
    } else if (named && line.starts_with("Rss:")) {
      bytes += std::stoull(line.substr(4)) * 1024;
    }
  }
  return bytes;
}

}  // namespace ibcoll::testing
