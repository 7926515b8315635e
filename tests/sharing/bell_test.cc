// Who fences between what is published and the look at who sleeps.

#include "engine/sharing/bell.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "shm/transport.h"

namespace ibcoll {
namespace {

constexpr int kRanks = 3;

/// From now on the kernel refuses membarrier to this process, as it does in some containers.
bool forbid_membarrier() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
         syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0;
}

/// Of each rank of a server: whether it leaves it to sleepers to fence. `without`: the rank that
/// has no membarrier; -1: none.
std::vector<bool> leave_it_to_sleepers(Rank without) {
  const Shape shape = Shape::single_server(kRanks);
  struct Memory {
    Bell bells[kRanks];
    bool answers[kRanks];
  };
  void* const mapped =
      mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(mapped, MAP_FAILED);
  auto& memory = *static_cast<Memory*>(mapped);
  const RankMain main = [&](Bootstrap& bootstrap) {
    if (bootstrap.rank() == without && !forbid_membarrier()) return 2;
    const auto transport = shm::Transport::create(bootstrap, shape, Bells(memory.bells), {});
    if (!transport) return 1;
    memory.answers[bootstrap.rank()] = sleepers_fence();
    return bootstrap.barrier() ? 0 : 1;
  };
  LaunchOptions launch;
  launch.ranks = kRanks;
  const Result<int> result = launch_processes(launch, main);
  EXPECT_TRUE(result && *result == 0);
  std::vector<bool> answers(memory.answers, memory.answers + kRanks);
  munmap(mapped, sizeof(Memory));
  return answers;
}

TEST(Bell, WhoRingsFencesForASleeperThatCanNot) {
  EXPECT_EQ(leave_it_to_sleepers(1), std::vector<bool>(kRanks, false));
}

TEST(Bell, SleepersFenceWhereAllCan) {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0)
    GTEST_SKIP() << "this kernel does not let sleepers fence";
  EXPECT_EQ(leave_it_to_sleepers(-1), std::vector<bool>(kRanks, true));
}

}  // namespace
}  // namespace ibcoll
