// The C and C++ interface: calls and groups that are cancelled, deadlines, and what errors say is
// over.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <ibcoll/ibcoll.hpp>
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

constexpr std::array<int, 3> kAllRanks{0, 1, 2};

ibcoll_group* group_of(const ApiRank& rank, uint64_t id) {
  const ibcoll_group_options options{sizeof options, id};
  ibcoll_group* group = nullptr;
  rank.good(ibcoll_group_create_with(rank.context, kAllRanks.data(), 3, &options, &group), "group");
  return group;
}

/// Complains unless that is the status, of that scope, and the line has the text.
void expect(const ApiRank& rank, ibcoll_status status, ibcoll_status wanted, ibcoll_scope scope,
            const std::string& text) {
  const std::string line = ibcoll_last_error();
  if (status != wanted || ibcoll_last_error_scope() != scope ||
      line.find(text) == std::string::npos)
    rank.complain(fmt::format("{} (scope {}): {}", static_cast<int>(status),
                              static_cast<int>(ibcoll_last_error_scope()), line));
}

/// A late rank may still end calls well that it has all data for.
void expect_over_soon(const ApiRank& rank, ibcoll_group* group, ibcoll_status wanted,
                      const std::string& text) {
  ibcoll_status status = IBCOLL_OK;
  for (int i = 0; i < 100 && status == IBCOLL_OK; ++i) status = ibcoll_barrier(group, nullptr);
  expect(rank, status, wanted, IBCOLL_SCOPE_GROUP, text);
}

class Ends : public ::testing::TestWithParam<const char*> {};

TEST_P(Ends, CancelledCallsEndTheirGroupAndNothingElse) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(
      launched(GetParam(), 3,
               [&](const ApiRank& rank) {
                 ibcoll_group* const group = group_of(rank, 5);
                 ibcoll_group* const world = ibcoll_world(rank.context);
                 const int me = ibcoll_rank(rank.context);
                 std::vector<int> send(3 * 50'000), recv(send.size());
                 const ibcoll_call call =
                     ibcoll_call_alltoall(send.data(), recv.data(), 50'000 * sizeof(int), nullptr);
                 ibcoll_request* request = nullptr;
                 rank.good(ibcoll_call_init(group, &call, &request), "init");
                 // Without effect on one that is not under way.
                 rank.good(ibcoll_cancel(request), "cancel");
                 rank.good(ibcoll_group_status(group), "status");
                 if (me == 2) flags.await(0, 1);
                 const ibcoll_status started = ibcoll_start(request);
                 if (me == 0) {
                   rank.good(started, "start");
                   rank.good(ibcoll_cancel(request), "cancel");
                   flags.raise(0);
                 }
                 const std::string text = "rank 0 has cancelled alltoall";
                 const ibcoll_status ended = started == IBCOLL_OK ? ibcoll_wait(request) : started;
                 if (ended != IBCOLL_OK || me == 0)
                   expect(rank, ended, IBCOLL_ERR_CANCELLED, IBCOLL_SCOPE_GROUP, text);
                 expect_over_soon(rank, group, IBCOLL_ERR_CANCELLED, text);
                 expect(rank, ibcoll_group_status(group), IBCOLL_ERR_CANCELLED, IBCOLL_SCOPE_GROUP,
                        text);
                 rank.good(ibcoll_call_free(request), "free");
                 rank.good(ibcoll_group_free(group), "free");
                 const ibcoll_group_options same{sizeof same, 5};
                 ibcoll_group* again = nullptr;
                 expect(rank,
                        ibcoll_group_create_with(rank.context, kAllRanks.data(), 3, &same, &again),
                        IBCOLL_ERR_INVALID, IBCOLL_SCOPE_CALL, "another identifier");
                 for (int i = 0; i < 5; ++i) {
                   if (const std::string wrong = exchange(world, i); !wrong.empty())
                     rank.complain(wrong);
                 }
               }),
      "");
}

TEST_P(Ends, BlockingCallsHaveDeadlines) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(
      launched(GetParam(), 3,
               [&](const ApiRank& rank) {
                 const subgroup group(rank.context, kAllRanks, 5);
                 std::vector<int> send(3 * 50'000), recv(send.size());
                 options with;
                 const bool late = ibcoll_rank(rank.context) == 2;
                 if (late) {
                   flags.await(1, 2);
                 } else {
                   with.deadline = std::chrono::milliseconds(30);
                   flags.raise(1);
                 }
                 try {
                   for (;;) {
                     // So that the others' deadline passes, and they can then end the call.
                     if (late) std::this_thread::sleep_for(std::chrono::milliseconds(100));
                     group.alltoall<int>(send, recv, with);
                   }
                 } catch (const error& e) {
                   if (e.status() != IBCOLL_ERR_DEADLINE || e.scope() != IBCOLL_SCOPE_GROUP ||
                       std::string(e.what()).find("the deadline of 0.03 s") == std::string::npos)
                     rank.complain(e.what());
                 }
                 flags.raise(0);
                 flags.await(0, 3);
                 if (const std::string wrong = exchange(ibcoll_world(rank.context), 1);
                     !wrong.empty())
                   rank.complain(wrong);
               }),
      "");
}

TEST_P(Ends, AThreadCancelsWhatAnotherWaitsFor) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(
      launched(GetParam(), 3,
               [&](const ApiRank& rank) {
                 rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "level");
                 ibcoll_group* const group = group_of(rank, 5);
                 if (ibcoll_rank(rank.context) == 2) {
                   flags.await(0, 2);
                   expect_over_soon(rank, group, IBCOLL_ERR_CANCELLED, "has cancelled its group");
                 } else {
                   ThreadsOf threads(rank);
                   threads.add([&] {
                     expect(rank, ibcoll_barrier(group, nullptr), IBCOLL_ERR_CANCELLED,
                            IBCOLL_SCOPE_GROUP, "has cancelled its group");
                     return "";
                   });
                   threads.add([&] {
                     std::this_thread::sleep_for(std::chrono::milliseconds(20));
                     rank.good(ibcoll_group_cancel(group), "cancel");
                     flags.raise(0);
                     return "";
                   });
                   threads.join();
                 }
                 rank.good(ibcoll_group_free(group), "free");
                 rank.good(ibcoll_barrier(ibcoll_world(rank.context), nullptr), "barrier");
               }),
      "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, Ends, ::testing::Values("3", "1,1,1", "2,1"));

TEST(EndsOfJobs, AreToldFromEndsOfGroups) {
  for (const char* const layout : {"2", "1,1"}) {
    for (const bool dies : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", layout, dies ? "dies" : "aborts"));
      int status = 0;
      EXPECT_EQ(launched(
                    layout, 2,
                    [dies](const ApiRank& rank) {
                      ibcoll_group* const world = ibcoll_world(rank.context);
                      if (ibcoll_rank(rank.context) == 1) {
                        if (dies) raise(SIGKILL);
                        ibcoll_abort(rank.context, "it has had enough");
                        return;
                      }
                      expect(rank, ibcoll_barrier(world, nullptr), IBCOLL_ERR_PEER_FAILED,
                             dies ? IBCOLL_SCOPE_GROUP : IBCOLL_SCOPE_JOB, "rank 1");
                    },
                    &status),
                "");
    }
  }
}

TEST(EndsOfCalls, DeadlinesThatCannotBeAreRefused) {
  EXPECT_EQ(launched("1", 1,
                     [](const ApiRank& rank) {
                       ibcoll_options options = IBCOLL_OPTIONS_INIT;
                       for (const int64_t wrong : {int64_t{-1}, INT64_MAX}) {
                         options.deadline_us = wrong;
                         expect(rank, ibcoll_barrier(ibcoll_world(rank.context), &options),
                                IBCOLL_ERR_INVALID, IBCOLL_SCOPE_CALL,
                                "deadline_us must be 0 to 2^53, not " + std::to_string(wrong));
                       }
                       expect(rank, ibcoll_cancel(nullptr), IBCOLL_ERR_INVALID, IBCOLL_SCOPE_CALL,
                              "the request is null");
                       expect(rank, ibcoll_group_cancel(nullptr), IBCOLL_ERR_INVALID,
                              IBCOLL_SCOPE_CALL, "the group is null");
                     }),
            "");
}

}  // namespace
}  // namespace ibcoll
