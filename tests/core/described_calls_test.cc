// The C interface: calls that are described and made at once, and requests that are looked at
// without a test.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using ::testing::HasSubstr;
using testing::launched;
using testing::SharedFlags;

/// What is wrong on a rank; empty: nothing.
std::string sum_and_gather(const ApiRank& rank) {
  const int64_t ranks = ibcoll_size(rank.context), me = ibcoll_rank(rank.context);
  ibcoll_group* const world = ibcoll_world(rank.context);
  int64_t sum = 0;
  const ibcoll_call add = ibcoll_call_allreduce(&me, &sum, 1, IBCOLL_INT64, IBCOLL_SUM, nullptr);
  for (int i = 0; i < 3; ++i) {
    sum = 0;
    if (ibcoll_group_call(world, &add) != IBCOLL_OK) return ibcoll_last_error();
    if (sum != ranks * (ranks - 1) / 2) return "the sum is wrong";
  }
  // Blocks of a layout have no function of their own in a gather: every other number.
  std::vector<int64_t> all(static_cast<size_t>(2 * ranks), -1);
  std::vector<ibcoll_block> blocks;
  for (int64_t i = 0; i < ranks; ++i) blocks.push_back(ibcoll_block_contiguous(16 * i, sizeof me));
  ibcoll_call gather = ibcoll_call_allgather(&me, all.data(), sizeof me, nullptr);
  gather.recv_blocks = blocks.data();
  if (ibcoll_group_call(world, &gather) != IBCOLL_OK) return ibcoll_last_error();
  for (int64_t i = 0; i < ranks; ++i)
    if (all[2 * i] != i || all[2 * i + 1] != -1) return "a block is wrong";
  return "";
}

TEST(DescribedCalls, AreMadeAtOnce) {
  for (const char* layout : {"1", "3", "2,1"}) {
    const int ranks = layout[0] == '1' ? 1 : 3;
    EXPECT_EQ(launched(layout, ranks,
                       [](const ApiRank& rank) {
                         if (const std::string wrong = sum_and_gather(rank); !wrong.empty())
                           rank.complain(wrong);
                       }),
              "")
        << layout;
  }
}

class DescribedCallsAlone : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(ibcoll_init(&context_), IBCOLL_OK) << ibcoll_last_error(); }
  void TearDown() override { EXPECT_EQ(ibcoll_finalize(context_), IBCOLL_OK); }
  void expect_refused(ibcoll_group* group, const ibcoll_call* call, const std::string& why) const {
    EXPECT_EQ(ibcoll_group_call(group, call), IBCOLL_ERR_INVALID);
    EXPECT_THAT(ibcoll_last_error(), HasSubstr(why));
    EXPECT_EQ(ibcoll_last_error_scope(), IBCOLL_SCOPE_CALL);
  }
  ibcoll_context* context_ = nullptr;
};

TEST_F(DescribedCallsAlone, AreRefusedWithALine) {
  ibcoll_group* const world = ibcoll_world(context_);
  ibcoll_call call = ibcoll_call_barrier(nullptr);
  expect_refused(nullptr, &call, "group");
  expect_refused(world, nullptr, "the call is null");
  call.flags = IBCOLL_PERSISTENT;
  expect_refused(world, &call, "a blocking call has none");
  call.flags = 0;
  call.reserved = 1;
  expect_refused(world, &call, "reserved");
  call.reserved = 0;
  call.struct_size = 3;
  expect_refused(world, &call, "struct_size 3");
  // That of an older version, whose last member is not there.
  call.struct_size = offsetof(ibcoll_call, graph);
  EXPECT_EQ(ibcoll_group_call(world, &call), IBCOLL_OK) << ibcoll_last_error();
}

TEST_F(DescribedCallsAlone, MayBeDoneOnceTheyAre) {
  ibcoll_request* request = nullptr;
  const ibcoll_call call = ibcoll_call_barrier(nullptr);
  EXPECT_EQ(ibcoll_may_be_done(nullptr), 0);
  ASSERT_EQ(ibcoll_call_init(ibcoll_world(context_), &call, &request), IBCOLL_OK);
  ASSERT_EQ(ibcoll_start(request), IBCOLL_OK);
  ASSERT_EQ(ibcoll_wait(request), IBCOLL_OK);
  EXPECT_EQ(ibcoll_may_be_done(request), 1);
  EXPECT_EQ(ibcoll_call_free(request), IBCOLL_OK);
}

/// A rank that waits for another one is told so, and then that it need wait no longer.
TEST(DescribedCalls, MayBeDoneOnlyWhenAllHaveMadeThem) {
  const auto body = [](const ApiRank& rank) {
    ibcoll_group* const world = ibcoll_world(rank.context);
    const ibcoll_call barrier = ibcoll_call_barrier(nullptr);
    ibcoll_request* request = nullptr;
    if (!rank.good(ibcoll_call_init(world, &barrier, &request), "request")) return;
    int done = 0, moved = 0;
    if (ibcoll_rank(rank.context) == 0) {
      rank.good(ibcoll_start(request), "start");
      for (int i = 0; i < 100; ++i) rank.good(ibcoll_progress(rank.context, &moved), "progress");
      if (ibcoll_may_be_done(request) != 0) rank.complain("a barrier of one is done");
    }
    // Rank 1 does not start before that is known.
    int token = 0;
    ibcoll_group* const other = testing::group_of(rank, {0, 1}, 5);
    rank.good(ibcoll_bcast(other, &token, sizeof token, 0, nullptr), "bcast");
    if (ibcoll_rank(rank.context) == 1) rank.good(ibcoll_start(request), "start");
    while (ibcoll_may_be_done(request) == 0)
      rank.good(ibcoll_progress(rank.context, &moved), "progress");
    rank.good(ibcoll_test(request, &done), "test");
    if (done != 1) rank.complain("what may be done is not");
    rank.good(ibcoll_call_free(request), "free");
    rank.good(ibcoll_group_free(other), "group");
  };
  EXPECT_EQ(launched("2", 2, body), "");
}

/// Who looks at nothing else, as a thread makes the progress, learns of the job's end by it.
TEST(DescribedCalls, MayBeDoneWhenTheJobHasEnded) {
  SharedFlags& flags = SharedFlags::create();
  const auto body = [&flags](const ApiRank& rank) {
    if (ibcoll_rank(rank.context) == 1) {
      flags.await(0, 1, 10'000);
      raise(SIGKILL);
    }
    rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "level");
    rank.good(ibcoll_set_progress_thread(rank.context, 1), "thread");
    const ibcoll_call barrier = ibcoll_call_barrier(nullptr);
    ibcoll_request* request = nullptr;
    int done = 0;
    if (!rank.good(ibcoll_call_init(ibcoll_world(rank.context), &barrier, &request), "request"))
      return;
    rank.good(ibcoll_start(request), "start");
    flags.raise(0);
    while (ibcoll_may_be_done(request) == 0) usleep(1000);
    if (ibcoll_test(request, &done) != IBCOLL_ERR_PEER_FAILED)
      rank.complain("the test does not tell of the death");
  };
  int status = 0;
  EXPECT_EQ(launched("1,1", 2, body, &status), "");
}

}  // namespace
}  // namespace ibcoll
