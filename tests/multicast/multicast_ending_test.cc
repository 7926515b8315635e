// Multicasts at a job's end: ranks that finalize serve those that come later, and what a program
// leaves behind holds up nobody.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <ibcoll/ibcoll.hpp>

#include "tests/multicast_job.h"
#include "tests/shared_host.h"

namespace ibcoll {
namespace {

using testing::acknowledged;
using testing::ApiRank;
using ::testing::HasSubstr;
using testing::Letter;
using testing::MulticastWay;
using testing::receive;
using testing::SentLetter;
using testing::SharedFlags;

class MulticastEnding : public ::testing::TestWithParam<MulticastWay> {};

/// Longer than it takes until a rank that has left counts as one that never comes.
TEST_P(MulticastEnding, RanksThatFinalizeWaitForAMasterThatComputes) {
  EXPECT_EQ(testing::run_multicasts(GetParam(), {},
                                    [](const ApiRank& rank) {
                                      if (!testing::meet(rank) || ibcoll_rank(rank.context) != 0)
                                        return;
                                      std::this_thread::sleep_for(std::chrono::milliseconds(300));
                                      SentLetter sent(rank, {0, {1, 2}, 1 << 20, 0});
                                      if (!sent.start_sometime()) return;
                                      for (int i = 0; i < 20; ++i)
                                        ibcoll_progress(rank.context, nullptr);
                                      std::this_thread::sleep_for(std::chrono::milliseconds(2000));
                                      rank.good(sent.wait(), "wait");
                                    }),
            "");
}

/// Sends until that fails, to ranks that finalize meanwhile, of which one dies.
std::string sent_past_death(const MulticastWay& way, const std::vector<int>& members, int victim) {
  int status = 0;
  const std::string complaints = testing::run_multicasts(
      way, {},
      [&](const ApiRank& rank) {
        if (!testing::meet(rank)) return;
        if (ibcoll_rank(rank.context) == victim) {
          std::thread([] {
            std::this_thread::sleep_for(std::chrono::milliseconds(600));
            raise(SIGKILL);
          }).detach();
        }
        if (ibcoll_rank(rank.context) != 0) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        for (uint64_t tag = 0;; ++tag) {
          SentLetter sent(rank, {0, members, 1 << 20, tag});
          ibcoll_status ended = sent.start(acknowledged());
          if (ended == IBCOLL_OK) ended = sent.wait();
          if (ended == IBCOLL_OK) continue;
          return rank.complain(ibcoll_last_error());
        }
      },
      &status);
  EXPECT_NE(status, 0);
  return complaints;
}

/// One that serves is waited for only as long as it does.
TEST_P(MulticastEnding, RanksThatDieWhileTheyFinalizeAreFound) {
  EXPECT_THAT(sent_past_death(GetParam(), {1, 2}, 1), HasSubstr("rank 1 "));
}

/// Others leave then, and so does the root.
TEST_P(MulticastEnding, RanksThatLeaveAfterADeathAreMissed) {
  const std::string complaints = sent_past_death(GetParam(), {1}, 2);
  EXPECT_THAT(complaints, ::testing::ContainsRegex("rank [12] "));
  EXPECT_THAT(complaints, ::testing::Not(HasSubstr("rank 1 has died")));
}

/// Two messages of which the memory holds one.
TEST_P(MulticastEnding, MessagesThatNobodyHasFreedHoldUpNothing) {
  for (const bool takes : {true, false}) {
    EXPECT_EQ(testing::run_multicasts(
                  GetParam(), {{"IBCOLL_MULTICAST_MEMORY", "1M"}},
                  [takes](const ApiRank& rank) {
                    const int me = ibcoll_rank(rank.context);
                    if (me == 0) {
                      SentLetter first(rank, {0, {1}, 700'000, 0});
                      SentLetter second(rank, {0, {1}, 700'000, 1});
                      if (first.start_sometime(acknowledged())) rank.good(first.wait(), "first");
                      if (second.start_sometime(acknowledged())) rank.good(second.wait(), "second");
                    } else if (me == 1 && takes) {
                      const ibcoll_message* message = nullptr;
                      rank.good(ibcoll_multicast_receive(rank.context, -1, &message), "receive");
                    }
                  }),
              "");
  }
}

/// The other one's message needs memory that this one's program has not given back, and both wait.
TEST_P(MulticastEnding, RequestsThatNobodyHasFreedAreWaitedFor) {
  EXPECT_EQ(testing::run_multicasts(GetParam(), {{"IBCOLL_MULTICAST_MEMORY", "1M"}},
                                    [](const ApiRank& rank) {
                                      const int me = ibcoll_rank(rank.context);
                                      if (me == 2) return;
                                      for (uint64_t tag = 0; tag < 3; ++tag) {
                                        auto* const data = new std::vector<std::byte>(700'000);
                                        const uint64_t other = 1 << (1 - me);
                                        ibcoll_request* request = nullptr;
                                        rank.good(
                                            ibcoll_multicast(rank.context, &other, 1, data->data(),
                                                             data->size(), nullptr, &request),
                                            "send");
                                      }
                                    }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Ways, MulticastEnding,
                         ::testing::Values(MulticastWay{"shm", "3", 3},
                                           MulticastWay{"loopback", "1,1,1", 3}),
                         [](const ::testing::TestParamInfo<MulticastWay>& info) {
                           return std::string(info.param.name);
                         });

/// What ibcoll_finalize says of what a program has not freed; gives the line.
std::string finalized(const std::function<void(ibcoll_context*, std::vector<char>&)>& body) {
  std::vector<char> data(100'000, 'x');
  testing::SharedHost& host = testing::SharedHost::create();
  testing::SharedHost::Member member(host, 0, 1);
  const ibcoll_bootstrap bootstrap = member.blocking();
  ibcoll_context* context = nullptr;
  if (ibcoll_init_with(&bootstrap, &context) != IBCOLL_OK) return ibcoll_last_error();
  body(context, data);
  return ibcoll_finalize(context) == IBCOLL_OK ? "" : ibcoll_last_error();
}

TEST(MulticastLeftovers, AreNamedAndRefusedFromThenOn) {
  const uint64_t me = 1;
  const ibcoll_message* message = nullptr;
  ibcoll_request* request = nullptr;
  EXPECT_THAT(finalized([&](ibcoll_context* context, std::vector<char>& data) {
                ASSERT_EQ(
                    ibcoll_multicast(context, &me, 1, data.data(), data.size(), nullptr, &request),
                    IBCOLL_OK);
                ASSERT_EQ(ibcoll_multicast_receive(context, -1, &message), IBCOLL_OK);
              }),
              HasSubstr("but 1 message and 1 request: 1 multicast had not been freed"));
  EXPECT_EQ(ibcoll_wait(request), IBCOLL_ERR_INVALID);
  // Another context, which may well lie where that one did.
  EXPECT_EQ(finalized([&](ibcoll_context* context, std::vector<char>&) {
              EXPECT_EQ(ibcoll_message_free(context, message), IBCOLL_ERR_INVALID);
            }),
            "");
}

/// Of this process, which has two at once.
TEST(MulticastMessages, AreFreedByTheContextThatHasThem) {
  const uint64_t me = 1;
  const auto take = [&](ibcoll_context* context, std::vector<char>& data) {
    const ibcoll_message* message = nullptr;
    EXPECT_EQ(ibcoll_multicast(context, &me, 1, data.data(), data.size(), nullptr, nullptr),
              IBCOLL_OK);
    EXPECT_EQ(ibcoll_multicast_receive(context, -1, &message), IBCOLL_OK);
    return message;
  };
  EXPECT_EQ(finalized([&](ibcoll_context* one, std::vector<char>& data) {
              EXPECT_EQ(finalized([&](ibcoll_context* other, std::vector<char>& others_data) {
                          std::fill(others_data.begin(), others_data.end(), 'x');
                          const ibcoll_message* const message = take(other, others_data);
                          ASSERT_NE(message, nullptr);
                          EXPECT_EQ(ibcoll_message_free(one, message), IBCOLL_ERR_INVALID);
                          EXPECT_THAT(ibcoll_last_error(), HasSubstr("another context's"));
                          EXPECT_EQ(*static_cast<const char*>(message->data), 'x');
                          EXPECT_EQ(ibcoll_message_free(other, message), IBCOLL_OK);
                        }),
                        "");
              // Left to a context that has ended.
              const ibcoll_message* left = nullptr;
              EXPECT_THAT(finalized([&](ibcoll_context* other, std::vector<char>& others_data) {
                            left = take(other, others_data);
                          }),
                          HasSubstr("but 1 message had not been freed"));
              const ibcoll_message* const own = take(one, data);
              EXPECT_EQ(ibcoll_message_free(one, left), IBCOLL_ERR_INVALID);
              EXPECT_EQ(ibcoll_message_free(one, own), IBCOLL_OK);
            }),
            "");
}

}  // namespace
}  // namespace ibcoll
