// A lock whose holder may die.

#include "engine/sharing/robust_mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

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

}  // namespace
}  // namespace ibcoll
