// The C interface: requests that are renewed, for one call after another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "tests/api_job.h"
#include "tests/expect_invalid.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using ::testing::ElementsAre;
using testing::expect_invalid;
using testing::group_of;
using ::testing::HasSubstr;
using testing::launched;

/// A job of this process alone, and a request of its world.
class Renewal : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ibcoll_init(&context_), IBCOLL_OK) << ibcoll_last_error();
    const ibcoll_call nothing = ibcoll_call_barrier(nullptr);
    ASSERT_EQ(ibcoll_call_init(ibcoll_world(context_), &nothing, &request_), IBCOLL_OK);
  }
  void TearDown() override {
    EXPECT_EQ(ibcoll_call_free(request_), IBCOLL_OK) << ibcoll_last_error();
    EXPECT_EQ(ibcoll_finalize(context_), IBCOLL_OK);
  }
  void finish() {
    ASSERT_EQ(ibcoll_start(request_), IBCOLL_OK) << ibcoll_last_error();
    ASSERT_EQ(ibcoll_wait(request_), IBCOLL_OK) << ibcoll_last_error();
  }
  void run(const ibcoll_call& call) {
    ASSERT_EQ(ibcoll_call_renew(request_, &call), IBCOLL_OK) << ibcoll_last_error();
    finish();
  }
  ibcoll_context* context_ = nullptr;
  ibcoll_request* request_ = nullptr;
};

TEST_F(Renewal, GivesARequestAnotherCallOrOtherArguments) {
  std::array<int64_t, 4> from{1, 2, 3, 4}, to{};
  const int64_t count = sizeof from, place = 0;
  run(ibcoll_call_allreduce(from.data(), to.data(), 3, IBCOLL_INT64, IBCOLL_SUM, nullptr));
  EXPECT_THAT(to, ElementsAre(1, 2, 3, 0));
  run(ibcoll_call_allreduce(from.data() + 2, to.data() + 1, 2, IBCOLL_INT64, IBCOLL_SUM, nullptr));
  EXPECT_THAT(to, ElementsAre(1, 3, 4, 0));
  run(ibcoll_call_alltoallv(from.data(), &count, &place, to.data(), &count, &place, nullptr));
  EXPECT_EQ(to, from);
  expect_invalid(ibcoll_start(request_), "IBCOLL_PERSISTENT");
}

TEST_F(Renewal, MakesCallsPersistentOrNot) {
  std::array<int64_t, 4> from{}, to{};
  ibcoll_call call = ibcoll_call_alltoall(from.data(), to.data(), sizeof from, nullptr);
  call.flags = IBCOLL_PERSISTENT;
  run(call);
  for (int64_t round = 1; round < 4; ++round) {
    from.fill(round);
    finish();
    EXPECT_EQ(to, from);
  }
  call.flags = 0;
  run(call);
  expect_invalid(ibcoll_start(request_), "IBCOLL_PERSISTENT");
}

TEST_F(Renewal, LeavesNoCallWhereItIsRefused) {
  int64_t from = 7, to = 0;
  const ibcoll_call right = ibcoll_call_alltoall(&from, &to, sizeof to, nullptr);
  const ibcoll_call wrong = ibcoll_call_bcast(&to, sizeof to, 1, nullptr);
  ASSERT_EQ(ibcoll_call_renew(request_, &right), IBCOLL_OK) << ibcoll_last_error();
  expect_invalid(ibcoll_call_renew(request_, nullptr), "null");
  expect_invalid(ibcoll_call_renew(request_, &wrong), "root");
  expect_invalid(ibcoll_start(request_), "no arguments");
  EXPECT_EQ(to, 0) << "the call that it had is not made";
  run(right);
  EXPECT_EQ(to, 7);
}

TEST_F(Renewal, IsNotForCallsOnSets) {
  const uint64_t set = 1;
  const ibcoll_call call = ibcoll_call_barrier(nullptr);
  ibcoll_request* on_set = nullptr;
  ASSERT_EQ(ibcoll_set_call_init(context_, &set, 1, 0, &call, &on_set), IBCOLL_OK);
  expect_invalid(ibcoll_call_renew(on_set, &call), "set");
  ASSERT_EQ(ibcoll_start(on_set), IBCOLL_OK) << ibcoll_last_error();
  ASSERT_EQ(ibcoll_wait(on_set), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_call_free(on_set), IBCOLL_OK);
  expect_invalid(ibcoll_call_renew(nullptr, &call), "the request is null");
}

/// One alltoallv, by an algorithm whose blocks travel through other ranks or by the default one,
/// and one sum. `kept`: renewed for both; null: each has a new request.
void exchange_and_add(const ApiRank& rank, int64_t round, ibcoll_request* kept) {
  ibcoll_group* const world = ibcoll_world(rank.context);
  const int me = ibcoll_rank(rank.context), size = ibcoll_size(rank.context);
  const auto ranks = static_cast<size_t>(size);
  const std::vector<int64_t> counts(ranks, round * int64_t{sizeof round});
  std::vector<int64_t> places(ranks);
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), int64_t{0});
  std::vector<int64_t> from(ranks * static_cast<size_t>(round), 100 * round + me), to(from.size());
  int64_t sum = 0;
  ibcoll_options relayed = IBCOLL_OPTIONS_INIT;
  relayed.algorithm = "bruck";
  const std::array<ibcoll_call, 2> calls = {
      ibcoll_call_alltoallv(from.data(), counts.data(), places.data(), to.data(), counts.data(),
                            places.data(), round % 3 == 0 ? nullptr : &relayed),
      ibcoll_call_allreduce(from.data(), &sum, 1, IBCOLL_INT64, IBCOLL_SUM, nullptr)};
  for (const ibcoll_call& call : calls) {
    ibcoll_request* request = kept;
    rank.good(
        kept != nullptr ? ibcoll_call_renew(kept, &call) : ibcoll_call_init(world, &call, &request),
        "request");
    rank.good(ibcoll_start(request), "start");
    rank.good(ibcoll_wait(request), "wait");
    if (kept == nullptr) rank.good(ibcoll_call_free(request), "free");
  }
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t expected = 100 * round + static_cast<int64_t>(i) / round;
    if (to[i] != expected)
      rank.complain(fmt::format("round {}: {} is not {}", round, to[i], expected));
  }
  const int64_t expected = 100 * round * size + int64_t{size} * (size - 1) / 2;
  if (sum != expected) rank.complain(fmt::format("{} is not {}", sum, expected));
}

class RenewalInJobs : public ::testing::TestWithParam<const char*> {};

TEST_P(RenewalInJobs, IsForEachRankToDoOrNot) {
  const auto body = [](const ApiRank& rank) {
    ibcoll_request* kept = nullptr;
    const ibcoll_call nothing = ibcoll_call_barrier(nullptr);
    if (ibcoll_rank(rank.context) == 0)
      rank.good(ibcoll_call_init(ibcoll_world(rank.context), &nothing, &kept), "init");
    for (int64_t round = 1; round <= 20; ++round) exchange_and_add(rank, round, kept);
    rank.good(ibcoll_call_free(kept), "free");
  };
  EXPECT_EQ(launched(GetParam(), 3, body), "");
}

/// What the call read and wrote the last time counts for nothing, whether it needs memory or not.
TEST_P(RenewalInJobs, RepeatsACallOnWhatItsBuffersHoldThen) {
  const auto body = [](const ApiRank& rank) {
    constexpr size_t kMost = 20'000;
    const int me = ibcoll_rank(rank.context);
    std::vector<int64_t> from(3 * kMost), to(3 * kMost);
    for (const size_t count : {size_t{1}, kMost}) {
      const std::array<ibcoll_call, 3> calls = {
          ibcoll_call_allreduce(from.data(), to.data(), count, IBCOLL_INT64, IBCOLL_SUM, nullptr),
          ibcoll_call_alltoall(from.data(), to.data(), count * sizeof(int64_t), nullptr),
          ibcoll_call_alltoall(IBCOLL_IN_PLACE, to.data(), count * sizeof(int64_t), nullptr)};
      for (size_t i = 0; i < calls.size(); ++i) {
        ibcoll_request* kept = nullptr;
        rank.good(ibcoll_call_init(ibcoll_world(rank.context), &calls[i], &kept), "init");
        for (int64_t round = 1; round <= 5; ++round) {
          std::fill(from.begin(), from.end(), 10 * round + me);
          std::fill(to.begin(), to.end(), 10 * round + me);
          rank.good(ibcoll_call_renew(kept, &calls[i]), "renew");
          rank.good(ibcoll_start(kept), "start");
          rank.good(ibcoll_wait(kept), "wait");
          for (size_t at = 0; at < (i == 0 ? 1 : 3) * count; ++at) {
            const int64_t expected =
                i == 0 ? 30 * round + 3 : 10 * round + static_cast<int64_t>(at / count);
            if (to[at] != expected)
              return rank.complain(fmt::format("call {}: {} is not {}", i, to[at], expected));
          }
        }
        rank.good(ibcoll_call_free(kept), "free");
      }
    }
  };
  EXPECT_EQ(launched(GetParam(), 3, body), "");
}

/// Counts and options that stand at the same addresses may have changed since the last time.
TEST_P(RenewalInJobs, TakesWhatThePointersOfTheCallLeadToThen) {
  const auto body = [](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    std::vector<int64_t> from(9), to(9), counts(3);
    const std::vector<int64_t> places = {0, 3 * sizeof(int64_t), 6 * sizeof(int64_t)};
    ibcoll_options options = IBCOLL_OPTIONS_INIT;
    const ibcoll_call exchange =
        ibcoll_call_alltoallv(from.data(), counts.data(), places.data(), to.data(), counts.data(),
                              places.data(), nullptr);
    const ibcoll_call meeting = ibcoll_call_barrier(&options);
    ibcoll_request* kept = nullptr;
    rank.good(ibcoll_call_init(ibcoll_world(rank.context), &exchange, &kept), "init");
    for (int64_t round = 1; round <= 3; ++round) {
      std::fill(counts.begin(), counts.end(), round * int64_t{sizeof round});
      std::fill(from.begin(), from.end(), 10 * round + me);
      std::fill(to.begin(), to.end(), -1);
      rank.good(ibcoll_call_renew(kept, &exchange), "renew");
      rank.good(ibcoll_start(kept), "start");
      rank.good(ibcoll_wait(kept), "wait");
      for (int64_t at = 0; at < 9; ++at) {
        const int64_t expected = at % 3 < round ? 10 * round + at / 3 : -1;
        if (to[static_cast<size_t>(at)] != expected)
          return rank.complain(
              fmt::format("round {}: {} is not {}", round, to[static_cast<size_t>(at)], expected));
      }
    }
    for (int pieces = 1; pieces <= 3; ++pieces) {
      options.pieces = pieces;
      // Rank 0 alone renews: all must mean the same barrier.
      ibcoll_request* request = kept;
      rank.good(me == 0 ? ibcoll_call_renew(kept, &meeting)
                        : ibcoll_call_init(ibcoll_world(rank.context), &meeting, &request),
                "request");
      rank.good(ibcoll_start(request), "start");
      rank.good(ibcoll_wait(request), "wait");
      if (me != 0) rank.good(ibcoll_call_free(request), "free");
    }
    rank.good(ibcoll_call_free(kept), "free");
  };
  EXPECT_EQ(launched(GetParam(), 3, body), "");
}

TEST_P(RenewalInJobs, IsRefusedWhileTheCallIsUnderWay) {
  const auto body = [](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    const ibcoll_call call = ibcoll_call_barrier(nullptr);
    ibcoll_request* request = nullptr;
    ibcoll_group* const group = group_of(rank, {0, 1, 2}, 5);
    rank.good(ibcoll_call_init(group, &call, &request), "init");
    if (me == 0) {
      rank.good(ibcoll_start(request), "start");
      if (ibcoll_call_renew(request, &call) != IBCOLL_ERR_INVALID) rank.complain("renewed");
    }
    // The others begin only now.
    rank.good(ibcoll_barrier(ibcoll_world(rank.context), nullptr), "barrier");
    if (me != 0) rank.good(ibcoll_start(request), "start");
    rank.good(ibcoll_wait(request), "wait");
    rank.good(ibcoll_call_free(request), "free");
    rank.good(ibcoll_group_free(group), "free");
  };
  EXPECT_EQ(launched(GetParam(), 3, body), "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, RenewalInJobs, ::testing::Values("3", "2,1", "1,1,1"));

}  // namespace
}  // namespace ibcoll
