// Registered memory and the calls that use it: when it may be deregistered, also where calls,
// groups and jobs end early, and several threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ibcoll/ibcoll.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/transport/open.h"
#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::launched;
using testing::ThreadsOf;

constexpr size_t kNumbers = 20'000;

/// A buffer of this rank that is registered.
struct Buffer {
  std::vector<int> numbers = std::vector<int>(kNumbers, -1);
  ibcoll_memory* memory = nullptr;

  explicit Buffer(const ApiRank& rank) {
    rank.good(ibcoll_memory_register(rank.context, numbers.data(), kNumbers * sizeof(int), &memory),
              "register");
  }
};

void expect_in_use(const ApiRank& rank, const Buffer& buffer) {
  const ibcoll_status status = ibcoll_memory_deregister(buffer.memory);
  const std::string line = status == IBCOLL_OK ? "deregistered" : ibcoll_last_error();
  if (status != IBCOLL_ERR_INVALID ||
      line.find("can't be deregistered: a call that is under way uses them") == std::string::npos)
    rank.complain("not refused: " + line);
}

/// In place of a seed of the loopback.
const std::string kVerbs = "verbs";

class MemoryInUse : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == kVerbs) {
      if (!usable_network_port("verbs"))
        GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
      setenv("IBCOLL_TRANSPORT", "verbs", 1);
    } else {
      setenv("IBCOLL_LOOPBACK_SEED", GetParam().c_str(), 1);
    }
  }
  void TearDown() override {
    unsetenv("IBCOLL_LOOPBACK_SEED");
    unsetenv("IBCOLL_TRANSPORT");
  }
};

TEST_P(MemoryInUse, StaysRegistered) {
  const auto body = [](const ApiRank& rank) {
    const group world = context(rank.context).world();
    const std::vector<int> send(kNumbers, world.rank());
    Buffer recv(rank);
    request call = world.ialltoall<int>(send, recv.numbers);
    // Nothing has moved the call on.
    expect_in_use(rank, recv);
    call.wait();
    rank.good(ibcoll_memory_deregister(recv.memory), "deregister");
    if (recv.numbers.front() != 0 || recv.numbers.back() != 1) rank.complain("wrong data");
  };
  EXPECT_EQ(launched("1,1", 2, body), "");
}

/// What a call that was ended used is free when that is done, and other calls may use it.
TEST_P(MemoryInUse, IsFreeWhenACallWasCancelled) {
  const auto body = [](const ApiRank& rank) {
    const context own(rank.context);
    const std::vector<int> ranks{0, 1}, send(kNumbers, own.rank());
    const subgroup cancelled(rank.context, ranks, 7);
    Buffer recv(rank);
    if (own.rank() == 0) {
      request call = cancelled.ialltoall<int>(send, recv.numbers);
      expect_in_use(rank, recv);
      call.cancel();
      try {
        call.wait();
        rank.complain("a cancelled call ended well");
      } catch (const error& over) {
        if (over.status() != IBCOLL_ERR_CANCELLED) rank.complain(over.what());
      }
      rank.good(ibcoll_memory_deregister(recv.memory), "deregister");
      rank.good(ibcoll_memory_register(rank.context, recv.numbers.data(), kNumbers * sizeof(int),
                                       &recv.memory),
                "register again");
    }
    own.world().alltoall<int>(send, recv.numbers);
    if (recv.numbers.front() != 0 || recv.numbers.back() != 1) rank.complain("wrong data");
    rank.good(ibcoll_memory_deregister(recv.memory), "deregister at the end");
  };
  EXPECT_EQ(launched("1,1", 2, body), "");
}

/// When a job is over nothing of it is under way, and memory is the program's again.
TEST_P(MemoryInUse, IsFreeWhenTheJobHasFailed) {
  const auto body = [](const ApiRank& rank) {
    const context own(rank.context);
    const std::vector<int> send(kNumbers);
    Buffer recv(rank);
    if (own.rank() == 1) {
      ibcoll_abort(rank.context, "enough of it");
    } else {
      try {
        own.world().alltoall<int>(send, recv.numbers);
      } catch (const error& failed) {
        if (failed.status() != IBCOLL_ERR_PEER_FAILED) rank.complain(failed.what());
      }
    }
    rank.good(ibcoll_memory_deregister(recv.memory), "deregister");
    ibcoll_memory* more = nullptr;
    if (ibcoll_memory_register(rank.context, recv.numbers.data(), 8, &more) !=
        IBCOLL_ERR_PEER_FAILED)
      rank.complain("a job that is over takes memory");
  };
  int status = 0;
  EXPECT_EQ(launched("1,1", 2, body, &status), "");
  EXPECT_EQ(status, 1);
}

/// Each thread has a group, a buffer of its own, and a part of one that all have.
TEST_P(MemoryInUse, MayComeAndGoInSeveralThreads) {
  const auto body = [](const ApiRank& rank) {
    constexpr int kThreads = 4, kRounds = 30;
    const context own(rank.context);
    rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "level");
    const std::vector<int> ranks{0, 1};
    Buffer shared(rank);
    constexpr size_t kPart = kNumbers / kThreads;
    ThreadsOf threads(rank);
    for (int number = 0; number < kThreads; ++number) {
      threads.add([&, number]() -> std::string {
        try {
          const subgroup mine(rank.context, ranks, static_cast<uint64_t>(number) + 1);
          const auto part =
              std::span(shared.numbers).subspan(kPart * static_cast<size_t>(number), kPart);
          std::vector<int> send(kPart);
          for (int round = 0; round < kRounds; ++round) {
            std::fill(send.begin(), send.end(), number * 1000 + round * 2 + own.rank());
            const registered_memory registered = own.register_memory(std::span(send));
            mine.alltoall<int>(send, part);
            const int right = number * 1000 + round * 2;
            if (part.front() != right || part.back() != right + 1) return "wrong data";
          }
          return "";
        } catch (const error& wrong) {
          return wrong.what();
        }
      });
    }
    threads.join();
    rank.good(ibcoll_memory_deregister(shared.memory), "deregister");
  };
  EXPECT_EQ(launched("1,1", 2, body), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, MemoryInUse, ::testing::Values("0", "5"));
INSTANTIATE_TEST_SUITE_P(Verbs, MemoryInUse, ::testing::Values("verbs"));

}  // namespace
}  // namespace ibcoll
