// Several threads of each rank in one context: IBCOLL_THREAD_MULTIPLE.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/api_job.h"
#include "tests/named.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::exchange;
using testing::group_of;
using testing::launched;
using testing::SharedFlags;
using testing::ThreadsOf;

constexpr int kThreads = 8;
constexpr int kFourRanks = 4;

/// Eight groups: the even ones of all ranks, told apart by their numbers, the others of those but
/// one, some in another order. Null where the rank is none of it.
ibcoll_group* numbered_group(const ApiRank& rank, int number) {
  std::vector<int> ranks(static_cast<size_t>(ibcoll_size(rank.context)));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (number % 2 != 0) {
    const int without = number / 2;
    if (ibcoll_rank(rank.context) == without) return nullptr;
    std::erase(ranks, without);
    if (number % 4 == 3) std::reverse(ranks.begin(), ranks.end());
  }
  return group_of(rank, ranks, static_cast<uint64_t>(number) + 1);
}

/// An alltoall of a thread's own by request; persistent: five times.
std::string by_request(ibcoll_group* group, bool persistent, bool tests) {
  const int ranks = ibcoll_group_size(group), me = ibcoll_group_rank(group);
  std::vector<int> send(static_cast<size_t>(ranks)), recv(send.size());
  ibcoll_call call = ibcoll_call_alltoall(send.data(), recv.data(), sizeof(int), nullptr);
  call.flags = persistent ? IBCOLL_PERSISTENT : 0;
  ibcoll_request* request = nullptr;
  if (ibcoll_call_init(group, &call, &request) != IBCOLL_OK) return ibcoll_last_error();
  for (int round = 0; round < (persistent ? 5 : 1); ++round) {
    for (int to = 0; to < ranks; ++to) send[static_cast<size_t>(to)] = round + me * 64 + to * 4096;
    if (ibcoll_start(request) != IBCOLL_OK) return ibcoll_last_error();
    int done = tests ? 0 : 1;
    while (done == 0) {
      if (ibcoll_test(request, &done) != IBCOLL_OK) return ibcoll_last_error();
      if (done == 0) std::this_thread::yield();
    }
    if (ibcoll_wait(request) != IBCOLL_OK) return ibcoll_last_error();
    for (int from = 0; from < ranks; ++from) {
      if (recv[static_cast<size_t>(from)] != round + from * 64 + me * 4096)
        return fmt::format("the number from rank {} is wrong", from);
    }
  }
  return ibcoll_call_free(request) == IBCOLL_OK ? "" : ibcoll_last_error();
}

/// Calls of all sorts, as many on each member of the group.
std::string calls_on(ibcoll_group* group, int thread) {
  for (int round = 0; round < 12; ++round) {
    std::string wrong;
    const int call = thread * 16 + round;
    switch (round % 6) {
      case 0:
        wrong = exchange(group, call, 1);
        break;
      case 1:
        wrong = exchange(group, call, 3000);
        break;
      case 2:
        wrong = by_request(group, false, round > 6);
        break;
      case 3:
        wrong = by_request(group, true, round > 6);
        break;
      case 4:
        if (ibcoll_barrier(group, nullptr) != IBCOLL_OK) wrong = ibcoll_last_error();
        break;
      default:
        wrong = exchange(group, call, 40'000);
    }
    if (!wrong.empty()) return fmt::format("thread {}, round {}: {}", thread, round, wrong);
  }
  return "";
}

/// A layout, and how its network behaves.
struct Place {
  const char* name;
  const char* layout;
  const char* seed;
};

class OnLayouts : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (GetParam().seed != nullptr) setenv("IBCOLL_LOOPBACK_SEED", GetParam().seed, 1);
  }
  void TearDown() override { unsetenv("IBCOLL_LOOPBACK_SEED"); }
  std::string on_all(const std::function<void(const ApiRank&)>& body) {
    return launched(GetParam().layout, kFourRanks, [&](const ApiRank& rank) {
      rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "level");
      body(rank);
    });
  }
};

TEST_P(OnLayouts, EightThreadsOnEightGroups) {
  EXPECT_EQ(on_all([](const ApiRank& rank) {
              ThreadsOf threads(rank);
              std::vector<ibcoll_group*> groups;
              for (int i = 0; i < kThreads; ++i) groups.push_back(numbered_group(rank, i));
              for (int i = 0; i < kThreads; ++i) {
                if (groups[static_cast<size_t>(i)] == nullptr) continue;
                threads.add([&, i] { return calls_on(groups[static_cast<size_t>(i)], i); });
              }
              threads.join();
              for (ibcoll_group* group : groups) ibcoll_group_free(group);
            }),
            "");
}

TEST_P(OnLayouts, TheProgressThreadHelpsThem) {
  EXPECT_EQ(on_all([](const ApiRank& rank) {
              rank.good(ibcoll_set_progress_thread(rank.context, 1), "progress thread");
              ThreadsOf threads(rank);
              for (int i = 0; i < kThreads; ++i) {
                threads.add([&, i]() -> std::string {
                  ibcoll_group* const group = numbered_group(rank, i);
                  if (group == nullptr) return "";
                  const std::string wrong = calls_on(group, i);
                  ibcoll_group_free(group);
                  return wrong;
                });
              }
              threads.join();
            }),
            "");
}

TEST_P(OnLayouts, GroupsComeAndGoMeanwhile) {
  EXPECT_EQ(on_all([](const ApiRank& rank) {
              ThreadsOf threads(rank);
              for (int i = 0; i < kThreads; ++i) {
                threads.add([&, i]() -> std::string {
                  for (int round = 0; round < 10; ++round) {
                    ibcoll_group* const group = numbered_group(rank, i);
                    if (group == nullptr) continue;
                    void* memory = nullptr;
                    if (ibcoll_alloc(rank.context, 5000, &memory) != IBCOLL_OK)
                      return ibcoll_last_error();
                    std::string wrong = exchange(group, i * 16 + round, 50);
                    if (!wrong.empty()) return wrong;
                    ibcoll_counters counters = IBCOLL_COUNTERS_INIT;
                    if (ibcoll_get_counters(rank.context, &counters) != IBCOLL_OK ||
                        ibcoll_free(rank.context, memory) != IBCOLL_OK ||
                        ibcoll_group_free(group) != IBCOLL_OK)
                      return ibcoll_last_error();
                  }
                  return "";
                });
              }
              threads.join();
            }),
            "");
}

TEST_P(OnLayouts, AThreadThatWaitsForLongHoldsNobodyUp) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(on_all([&](const ApiRank& rank) {
              std::vector<int> all{0, 1, 2, 3};
              std::vector<ibcoll_group*> groups;
              for (uint64_t i = 0; i <= kThreads; ++i) groups.push_back(group_of(rank, all, i + 1));
              ThreadsOf threads(rank);
              const bool late = ibcoll_rank(rank.context) == 3;
              threads.add([&, late] {
                // Released only when all others of all ranks have finished: they never would if
                // this call held them up.
                if (late) flags.await(0, kFourRanks);
                return exchange(groups.back(), 1, 10);
              });
              for (int i = 0; i < kThreads; ++i) {
                threads.add([&, i] {
                  if (!late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
                  return calls_on(groups[static_cast<size_t>(i)], i);
                });
              }
              threads.join_but_first();
              flags.raise(0);
              threads.join();
              for (ibcoll_group* group : groups) ibcoll_group_free(group);
            }),
            "");
}

TEST_P(OnLayouts, ADeathReachesAllThatWait) {
  int status = 0;
  const std::string complaints = launched(
      GetParam().layout, kFourRanks,
      [](const ApiRank& rank) {
        rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "level");
        std::vector<ibcoll_group*> groups;
        for (uint64_t i = 0; i < kThreads; ++i)
          groups.push_back(group_of(rank, {0, 1, 2, 3}, i + 1));
        if (!exchange(groups[0], 0).empty()) rank.complain("the first call fails");
        if (ibcoll_rank(rank.context) == 2) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          raise(SIGKILL);
        }
        ThreadsOf threads(rank);
        for (int i = 0; i < kThreads; ++i) {
          threads.add([&, i]() -> std::string {
            const std::string error = exchange(groups[static_cast<size_t>(i)], i);
            return error.find("rank 2") != std::string::npos ? ""
                                                             : "no error names rank 2: " + error;
          });
        }
        threads.join();
        for (ibcoll_group* group : groups) ibcoll_group_free(group);
      },
      &status);
  EXPECT_EQ(complaints, "");
  EXPECT_NE(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Some, OnLayouts,
                         ::testing::Values(Place{"OneServer", "4", nullptr},
                                           Place{"TwoServers", "2,2", nullptr},
                                           Place{"AdversarialNetwork", "1,2,1", "7"}),
                         testing::named);

}  // namespace
}  // namespace ibcoll
