// Calls of several threads, or of a program that does not wait, that can't end: lateness is told by
// call, whatever else moves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ibcoll/ibcoll.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::exchange;
using testing::group_of;
using testing::launched;
using testing::SharedFlags;
using testing::ThreadsOf;

constexpr int kRanks = 3;

class OnLayouts : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { unsetenv("IBCOLL_DEADLINE"); }
};

/// Complains unless the line says that a deadline has passed.
std::string deadline_in(const std::string& line) {
  return line.find("IBCOLL_DEADLINE") != std::string::npos ? "" : "no deadline: " + line;
}

/// Calls of the group until one fails; its line.
std::string calls_until_error(ibcoll_group* group) {
  for (int call = 0;; ++call) {
    const std::string wrong = exchange(group, call, 10);
    if (!wrong.empty()) return wrong;
  }
}

TEST_P(OnLayouts, ADeadlinePassesWhileOtherThreadsMove) {
  setenv("IBCOLL_DEADLINE", "300ms", 1);
  SharedFlags& flags = SharedFlags::create();
  int status = 0;  // of a job that has failed
  EXPECT_EQ(launched(
                GetParam(), kRanks,
                [&](const ApiRank& rank) {
                  rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "level");
                  if (ibcoll_rank(rank.context) == 2) {
                    flags.await(0, kRanks - 1);
                    return;
                  }
                  ibcoll_group* const all = group_of(rank, {0, 1, 2}, 1);
                  ibcoll_group* const two = group_of(rank, {0, 1}, 2);
                  // No call's deadline begins while the other rank still starts.
                  flags.raise(1);
                  flags.await(1, kRanks - 1);
                  ThreadsOf threads(rank);
                  threads.add([&] { return deadline_in(exchange(all, 0)); });
                  // Never idle, and ended with the job.
                  threads.add([&] { return deadline_in(calls_until_error(two)); });
                  threads.join();
                  ibcoll_group_free(all);
                  ibcoll_group_free(two);
                  flags.raise(0);
                },
                &status),
            "");
}

/// So many calls of the group; the first error's line.
std::string calls_of(ibcoll_group* group, int calls) {
  for (int call = 0; call < calls; ++call) {
    const std::string wrong = exchange(group, call, 10);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST_P(OnLayouts, ADeathIsSeenWhileOtherThreadsMove) {
  // There the other group goes on.
  const bool one_server = std::string_view(GetParam()).find(',') == std::string_view::npos;
  SharedFlags& flags = SharedFlags::create();
  int status = 0;
  EXPECT_EQ(launched(
                GetParam(), kRanks,
                [&](const ApiRank& rank) {
                  rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "level");
                  if (ibcoll_rank(rank.context) == 2) {
                    flags.await(0, kRanks - 1);  // a group can't be made with the dead
                    raise(SIGKILL);
                  }
                  ibcoll_group* const all = group_of(rank, {0, 1, 2}, 1);
                  ibcoll_group* const two = group_of(rank, {0, 1}, 2);
                  flags.raise(0);
                  const auto names_it = [](const std::string& line) -> std::string {
                    return line.find("rank 2") != std::string::npos ? "" : "not rank 2: " + line;
                  };
                  ThreadsOf threads(rank);
                  threads.add([&] { return names_it(exchange(all, 0)); });
                  threads.add([&] {
                    return one_server ? calls_of(two, 3000) : names_it(calls_until_error(two));
                  });
                  threads.join();
                  if (one_server) {
                    if (const std::string wrong = calls_of(two, 100); !wrong.empty())
                      rank.complain(wrong);
                  }
                  ibcoll_group_free(all);
                  ibcoll_group_free(two);
                },
                &status),
            "");
  EXPECT_NE(status, 0);
}

/// How a program that does not wait comes to know: `step` is what it does again and again until
/// that fails.
std::string deadline_by(const char* layout,
                        const std::function<ibcoll_status(const ApiRank&)>& step) {
  setenv("IBCOLL_DEADLINE", "200ms", 1);
  SharedFlags& flags = SharedFlags::create();
  int status = 0;
  return launched(
      layout, kRanks,
      [&](const ApiRank& rank) {
        if (ibcoll_rank(rank.context) == 2) {
          flags.await(0, kRanks - 1);
          return;
        }
        int mine = 1, all[kRanks];
        const ibcoll_call call = ibcoll_call_allgather(&mine, all, sizeof mine, nullptr);
        ibcoll_request* request = nullptr;
        // Where another rank starts late, the deadline may pass in each of these.
        ibcoll_status last = ibcoll_call_init(ibcoll_world(rank.context), &call, &request);
        if (last == IBCOLL_OK) last = ibcoll_start(request);
        while (last == IBCOLL_OK) last = step(rank);
        const std::string wrong = deadline_in(ibcoll_last_error());
        if (!wrong.empty()) rank.complain(wrong);
        rank.good(ibcoll_call_free(request), "free");
        flags.raise(0);
      },
      &status);
}

TEST_P(OnLayouts, ADeadlineIsSeenByProgress) {
  EXPECT_EQ(deadline_by(GetParam(),
                        [](const ApiRank& rank) { return ibcoll_progress(rank.context, nullptr); }),
            "");
}

TEST_P(OnLayouts, ADeadlineIsSeenByTheProgressThread) {
  // Nothing but the thread makes progress: a call that is prepared only learns how the job is.
  EXPECT_EQ(deadline_by(GetParam(),
                        [](const ApiRank& rank) {
                          static bool started = false;
                          if (!started)
                            rank.good(ibcoll_set_progress_thread(rank.context, 1), "on");
                          started = true;
                          std::this_thread::sleep_for(std::chrono::milliseconds(10));
                          const ibcoll_call call = ibcoll_call_barrier(nullptr);
                          ibcoll_request* request = nullptr;
                          const ibcoll_status made =
                              ibcoll_call_init(ibcoll_world(rank.context), &call, &request);
                          return made != IBCOLL_OK ? made : ibcoll_call_free(request);
                        }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Some, OnLayouts, ::testing::Values("3", "2,1"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           return std::string(info.index == 0 ? "OneServer" : "TwoServers");
                         });

}  // namespace
}  // namespace ibcoll
