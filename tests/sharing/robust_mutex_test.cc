// A lock whose holder may die.

#include "engine/sharing/robust_mutex.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <new>
#include <optional>
#include <string>

#include "engine/base/input.h"
#include "tests/launched.h"

namespace ibcoll {
namespace {

TEST(RobustMutex, IsFreeAgainOnceItsHolderHasDied) {
  InSharedMemory<RobustMutex> mutex;
  mutex->prepare();
  const pid_t child = fork();
  if (child == 0) {
    new RobustMutex::Lock(*mutex);
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  for (int i = 0; i < 2; ++i) const RobustMutex::Lock lock(*mutex);
  const pid_t other = fork();
  if (other == 0) {
    { const RobustMutex::Lock lock(*mutex); }
    _exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
}

bool is_asleep(pid_t process) {
  const auto status = read_input(fmt::format("/proc/{}/stat", process));
  return status && status->find(") S ") != std::string::npos;
}

/// A process that may run on one processor alone.
template <class Does>
pid_t forked_on(int processor, Does does) {
  const pid_t process = fork();
  if (process != 0) return process;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  CPU_SET(processor, &allowed);
  sched_setaffinity(0, sizeof allowed, &allowed);
  does();
  _exit(0);
}

/// One of two that wait is woken, and dies before it gets to run, as its processor is busy; another
/// one takes the lock meanwhile, and does not see that there is still somebody to be woken.
TEST(RobustMutex, WakesTheOtherWhereTheOneThatWasWokenDies) {
  InSharedMemory<RobustMutex> mutex;
  InSharedMemory<std::atomic<bool>> busy, taken;
  mutex->prepare();
  const int processor = sched_getcpu();
  std::optional<RobustMutex::Lock> lock(*mutex);
  const pid_t first = forked_on(processor, [&] { const RobustMutex::Lock other(*mutex); });
  wait_until([&] { return is_asleep(first); });
  const sched_param none{};  // beside others it does not get to run
  ASSERT_EQ(sched_setscheduler(first, SCHED_IDLE, &none), 0);
  const pid_t second = forked_on(processor, [&] {
    const RobustMutex::Lock other(*mutex);
    *taken = true;
  });
  wait_until([&] { return is_asleep(second); });
  const pid_t hog = forked_on(processor, [&] {
    for (*busy = true; *busy;) {
    }
  });
  wait_until([&] { return busy->load(); });
  lock.reset();
  lock.emplace(*mutex);
  kill(first, SIGKILL);
  *busy = false;
  sched_setscheduler(first, SCHED_OTHER, &none);  // so that it ends soon; not all may do that
  waitpid(hog, nullptr, 0);
  waitpid(first, nullptr, 0);
  lock.reset();
  for (int ms = 0; ms < 5000 && !*taken; ++ms) usleep(1000);
  EXPECT_TRUE(*taken) << "nobody has woken it";
  kill(second, SIGKILL);
  waitpid(second, nullptr, 0);
}

}  // namespace
}  // namespace ibcoll
