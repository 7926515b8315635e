// The watch over unmapped memory, and that UCX's hooks behind it stay out of programs' way. Needs
// no RDMA device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "engine/transport/unmap_watch.h"
#include "tests/files.h"
#include "tests/places.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kBytes = 1 << 20;

struct Ending {
  int status = 0;
  std::string output;  ///< and errors
};

/// Runs a function in a process of its own.
Ending in_child(const std::function<void()>& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    body();
    _exit(0);
  }
  close(ends[1]);
  Ending ending;
  char part[4096];
  for (ssize_t got = 0; (got = read(ends[0], part, sizeof part)) > 0;)
    ending.output.append(part, static_cast<size_t>(got));
  close(ends[0]);
  EXPECT_EQ(waitpid(pid, &ending.status, 0), pid);
  return ending;
}

TEST(UnmapWatch, UcxIsLoadedOnlyWhereItIsUsed) {
  EXPECT_THAT(testing_tools::content_of("/proc/self/maps"), Not(HasSubstr("libucs")));
  for (const char* program : {"ib_a2a_bench", "ib_info"}) {
    const std::string path = testing_tools::bin_dir() + "/" + program;
    const Ending listed = in_child([&] {
      setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);  // what ldd does
      execl(path.c_str(), program, nullptr);
    });
    EXPECT_THAT(listed.output, HasSubstr("libibverbs"));
    EXPECT_THAT(listed.output, Not(HasSubstr("libucs"))) << program;
  }
}

TEST(UnmapWatch, UnmappedMemoryIsNoticed) {
  const Ending ending = in_child([] {
    const auto watch = UnmapWatch::create();
    if (!watch) _exit(2);
    void* memory = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::vector<AddressRange> ranges;
    watch->take(ranges);
    munmap(memory, kBytes);
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    if (!watch->any() || !watch->take(ranges)) _exit(3);
    const auto covers = [&](const AddressRange& range) {
      return range.begin <= begin && begin + kBytes <= range.end;
    };
    _exit(std::any_of(ranges.begin(), ranges.end(), covers) ? 0 : 4);
  });
  if (ending.status == 2 << 8) GTEST_SKIP() << "built without UCX's memory hooks";
  EXPECT_EQ(ending.status, 0);
}

TEST(UnmapWatch, ACrashOfTheProgramsOwnIsLeftToTheProgram) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes crashes itself, and is built without UCX's hooks";
#endif
  const Ending ending = in_child([] {
    const auto watch = UnmapWatch::create();
    raise(SIGSEGV);
  });
  EXPECT_TRUE(WIFSIGNALED(ending.status) && WTERMSIG(ending.status) == SIGSEGV);
  EXPECT_EQ(ending.output, "");
}

TEST(UnmapWatch, HandlersOfTheProgramStay) {
  const Ending ending = in_child([] {
    struct sigaction mine {};
    mine.sa_handler = [](int) { _exit(7); };
    sigaction(SIGSEGV, &mine, nullptr);
    const auto watch = UnmapWatch::create();
    raise(SIGSEGV);
  });
  EXPECT_TRUE(WIFEXITED(ending.status) && WEXITSTATUS(ending.status) == 7);
  EXPECT_EQ(ending.output, "");
}

}  // namespace
}  // namespace ibcoll
