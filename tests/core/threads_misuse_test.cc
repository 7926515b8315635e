// Which threads may call, and what is refused: two at once where one may, and what would take a
// group, request or context from under a thread that waits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <optional>
#include <string>
#include <thread>

#include "engine/core/c_api.h"
#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::exchange;
using testing::group_of;
using ::testing::HasSubstr;
using testing::launched;
using testing::run_ranks;
using testing::SharedFlags;
using testing::SharedHost;
using testing::ThreadsOf;

/// A job of this process alone, with several threads.
class MisusedAlone : public ::testing::Test {
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

TEST_F(MisusedAlone, TheLevelIsWhatWasSet) {
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

TEST_F(MisusedAlone, CallsOfAHandlerAreRefused) {
  // Inside of a call, as progress runs it, or on the progress thread, which makes none.
  const EntryGuard& guard = context_->context->threads().guard();
  for (const auto level : {IBCOLL_THREAD_SERIALIZED, IBCOLL_THREAD_MULTIPLE}) {
    for (const int progress_thread : {0, 1}) {
      ASSERT_EQ(ibcoll_set_thread_level(context_, level), IBCOLL_OK);
      ASSERT_EQ(ibcoll_set_progress_thread(context_, progress_thread), IBCOLL_OK);
      for (const bool in_call : {true, false}) {
        if (!in_call && progress_thread == 0) continue;
        std::optional<EntryGuard::Entry> entry;
        if (in_call) entry.emplace(context_->context->threads().guard());
        const InsideHandler handler(guard);
        EXPECT_EQ(ibcoll_barrier(ibcoll_world(context_), nullptr), IBCOLL_ERR_INVALID);
        EXPECT_THAT(ibcoll_last_error(), HasSubstr("a handler runs inside of a call"));
        EXPECT_EQ(ibcoll_set_progress_thread(context_, 0), IBCOLL_ERR_INVALID);
      }
      EXPECT_EQ(exchange(ibcoll_world(context_), 0), "");
    }
  }
  // What a handler of another context does is not this one's to refuse.
  const EntryGuard other;
  const InsideHandler handler(other);
  EXPECT_EQ(exchange(ibcoll_world(context_), 0), "");
}

TEST_F(MisusedAlone, AForkedChildIsRefused) {
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
              // Both are inside now.
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

/// Joins with a host, has one thread of rank 0 wait for rank 1 in a barrier, and tries `second` in
/// another until it is refused with that text; then lets rank 1 come.
std::string refused_while_one_waits(const std::function<ibcoll_status(ibcoll_context*)>& prepare,
                                    const std::function<ibcoll_status(ibcoll_context*)>& second,
                                    const std::string& text) {
  SharedHost& host = SharedHost::create();
  SharedFlags& flags = SharedFlags::create();
  return run_ranks(2, [&](int rank) -> std::string {
    SharedHost::Member member(host, rank, 2);
    const ibcoll_bootstrap given = member.blocking();
    ibcoll_context* context = nullptr;
    if (ibcoll_init_with(&given, &context) != IBCOLL_OK || prepare(context) != IBCOLL_OK)
      return ibcoll_last_error();
    std::string line;
    std::thread other;
    if (rank == 1) {
      flags.await(0, 1);
    } else {
      other = std::thread([&] {
        // The barrier below is not left before rank 1 has come.
        while (line.find(text) == std::string::npos) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          if (second(context) != IBCOLL_OK) line = ibcoll_last_error();
        }
        flags.raise(0);
      });
    }
    // Refused itself if it comes while the other one is inside.
    ibcoll_status met;
    do {
      met = ibcoll_barrier(ibcoll_world(context), nullptr);
    } while (met == IBCOLL_ERR_INVALID);
    if (other.joinable()) other.join();
    if (met != IBCOLL_OK) return "barrier: " + std::string(ibcoll_last_error());
    // Nothing was taken from it.
    if (const std::string wrong = exchange(ibcoll_world(context), 1); !wrong.empty()) return wrong;
    return ibcoll_finalize(context) == IBCOLL_OK ? "" : ibcoll_last_error();
  });
}

TEST(Misuse, TheJobIsNotLeftWhileAThreadWaits) {
  EXPECT_EQ(refused_while_one_waits(
                [](ibcoll_context* context) {
                  return ibcoll_set_thread_level(context, IBCOLL_THREAD_MULTIPLE);
                },
                [](ibcoll_context* context) {
                  // No call, but refused in another way once the other thread is inside.
                  ibcoll_options unknown = IBCOLL_OPTIONS_INIT;
                  unknown.algorithm = "none";
                  (void)ibcoll_barrier(ibcoll_world(context), &unknown);
                  const bool inside =
                      std::string(ibcoll_last_error()).find("blocking call") != std::string::npos;
                  return inside ? ibcoll_finalize(context) : IBCOLL_OK;
                },
                "another thread is in a call"),
            "");
}

TEST(Misuse, AProgressThreadLetsNoSecondThreadIn) {
  EXPECT_EQ(refused_while_one_waits(
                [](ibcoll_context* context) { return ibcoll_set_progress_thread(context, 1); },
                [](ibcoll_context* context) { return ibcoll_progress(context, nullptr); },
                "calls on a context must be serialised"),
            "");
}

}  // namespace
}  // namespace ibcoll
