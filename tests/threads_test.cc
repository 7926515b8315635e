// Several threads of each rank in one context: IBCOLL_THREAD_MULTIPLE.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::exchange;
using ::testing::HasSubstr;
using testing::launched;
using testing::SharedFlags;
using testing::ThreadsOf;

constexpr int kThreads = 8;
constexpr int kRanks = 4;

ibcoll_group* group_of(const ApiRank& rank, const std::vector<int>& ranks, uint64_t id) {
  const ibcoll_group_options options{sizeof options, id};
  ibcoll_group* group = nullptr;
  rank.good(ibcoll_group_create_with(rank.context, ranks.data(), static_cast<int>(ranks.size()),
                                     &options, &group),
            "group");
  return group;
}

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
    return launched(GetParam().layout, kRanks, [&](const ApiRank& rank) {
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
                if (late) flags.await(0, kRanks);
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
      GetParam().layout, kRanks,
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

std::string name_of(const ::testing::TestParamInfo<Place>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Some, OnLayouts,
                         ::testing::Values(Place{"OneServer", "4", nullptr},
                                           Place{"TwoServers", "2,2", nullptr},
                                           Place{"AdversarialNetwork", "1,2,1", "7"}),
                         name_of);

/// A job of this process alone, with several threads.
class Alone : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ibcoll_init(&context_), IBCOLL_OK) << ibcoll_last_error();
    ASSERT_EQ(ibcoll_set_thread_level(context_, IBCOLL_THREAD_MULTIPLE), IBCOLL_OK);
  }
  void TearDown() override {
    EXPECT_EQ(ibcoll_finalize(context_), IBCOLL_OK) << ibcoll_last_error();
  }
  ibcoll_context* context_ = nullptr;
};

TEST_F(Alone, TheLevelIsWhatWasSet) {
  EXPECT_EQ(ibcoll_get_thread_level(context_), IBCOLL_THREAD_MULTIPLE);
  EXPECT_EQ(ibcoll_set_thread_level(context_, IBCOLL_THREAD_SERIALIZED), IBCOLL_OK);
  EXPECT_EQ(ibcoll_get_thread_level(context_), IBCOLL_THREAD_SERIALIZED);
  EXPECT_EQ(exchange(ibcoll_world(context_), 0), "");
  EXPECT_EQ(ibcoll_set_thread_level(context_, static_cast<ibcoll_thread_level>(17)),
            IBCOLL_ERR_INVALID);
  EXPECT_THAT(ibcoll_last_error(), HasSubstr("thread level 17"));
  EXPECT_EQ(ibcoll_set_thread_level(nullptr, IBCOLL_THREAD_MULTIPLE), IBCOLL_ERR_INVALID);
  EXPECT_EQ(ibcoll_get_thread_level(context_), IBCOLL_THREAD_SERIALIZED);
}

TEST_F(Alone, AForkedChildIsRefused) {
  std::thread([&] { EXPECT_EQ(exchange(ibcoll_world(context_), 0), ""); }).join();
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = ibcoll_barrier(ibcoll_world(context_), nullptr) == IBCOLL_ERR_INVALID &&
                         ibcoll_progress(context_, nullptr) == IBCOLL_ERR_INVALID &&
                         ibcoll_finalize(context_) == IBCOLL_ERR_INVALID;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(exchange(ibcoll_world(context_), 1), "");
}

TEST(Variable, SetsTheLevel) {
  setenv("IBCOLL_THREADS", "multiple", 1);
  ibcoll_context* context = nullptr;
  ASSERT_EQ(ibcoll_init(&context), IBCOLL_OK) << ibcoll_last_error();
  unsetenv("IBCOLL_THREADS");
  EXPECT_EQ(ibcoll_get_thread_level(context), IBCOLL_THREAD_MULTIPLE);
  EXPECT_EQ(ibcoll_finalize(context), IBCOLL_OK);
}

/// Of what a second thread does while the first one waits for a late rank.
std::string while_one_waits(
    const std::function<void(const ApiRank&, ibcoll_group*, ibcoll_request*)>& second) {
  SharedFlags& flags = SharedFlags::create();
  return launched("2", 2, [&](const ApiRank& rank) {
    rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "level");
    ibcoll_group* const group = group_of(rank, {0, 1}, 5);
    int mine = 0, all[2];
    const ibcoll_call call = ibcoll_call_allgather(&mine, all, sizeof mine, nullptr);
    ibcoll_request* request = nullptr;
    rank.good(ibcoll_call_init(ibcoll_world(rank.context), &call, &request), "request");
    if (ibcoll_rank(rank.context) == 1) {
      flags.await(0, 1);
      rank.good(ibcoll_start(request), "start");
      rank.good(ibcoll_wait(request), "wait");
      rank.good(ibcoll_barrier(group, nullptr), "barrier");
    } else {
      std::atomic<int> inside{0};
      ThreadsOf threads(rank);
      threads.add([&]() -> std::string {
        inside += 1;
        return ibcoll_barrier(group, nullptr) == IBCOLL_OK ? "" : ibcoll_last_error();
      });
      threads.add([&]() -> std::string {
        if (ibcoll_start(request) != IBCOLL_OK) return ibcoll_last_error();
        inside += 1;
        return ibcoll_wait(request) == IBCOLL_OK ? "" : ibcoll_last_error();
      });
      while (inside != 2) std::this_thread::yield();
      second(rank, group, request);
      flags.raise(0);
      threads.join();
    }
    rank.good(ibcoll_call_free(request), "free");
    rank.good(ibcoll_group_free(group), "free group");
  });
}

/// Tries until it is refused with that text: the thread that waits may not be inside yet.
void expect_refused(const ApiRank& rank, const std::function<ibcoll_status()>& call,
                    const std::string& text) {
  for (int tries = 0; tries < 10'000; ++tries) {
    if (call() == IBCOLL_ERR_INVALID &&
        std::string(ibcoll_last_error()).find(text) != std::string::npos)
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  rank.complain("never refused: " + text);
}

TEST(Misuse, WhatOneThreadWaitsForAnotherLeavesAlone) {
  EXPECT_EQ(while_one_waits([](const ApiRank& rank, ibcoll_group* group, ibcoll_request* request) {
              int done = 0;
              expect_refused(
                  rank, [&] { return ibcoll_test(request, &done); }, "waits for this");
              expect_refused(
                  rank, [&] { return ibcoll_wait(request); }, "waits for this");
              expect_refused(
                  rank, [&] { return ibcoll_call_free(request); }, "waits for this");
              // Not a call by itself, in case the first one is not inside yet.
              ibcoll_options unknown = IBCOLL_OPTIONS_INIT;
              unknown.algorithm = "none";
              expect_refused(
                  rank, [&] { return ibcoll_barrier(group, &unknown); }, "blocking call");
              expect_refused(
                  rank, [&] { return ibcoll_group_free(group); }, "blocking call");
              expect_refused(
                  rank,
                  [&] { return ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_SERIALIZED); },
                  "another thread is in a call");
              expect_refused(
                  rank, [&] { return ibcoll_set_progress_thread(rank.context, 1); },
                  "another thread is in a call");
            }),
            "");
}

}  // namespace
}  // namespace ibcoll
