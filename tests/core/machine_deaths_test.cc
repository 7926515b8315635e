// Jobs on several machines that go on after a death, and end later for another reason, or never.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "ibcoll/ibcoll.h"
#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::group_of;
using testing::JoinedRun;
using testing::SharedFlags;

/// Two machines of two ranks, and one of one.
JoinedRun on_three_machines() {
  JoinedRun run;
  run.machines = {0, 0, 1, 1, 2};
  run.to_die = {0, 1, 2, 3, 4};
  run.limit_s = 40;
  return run;
}

ibcoll_group* shrunk(const ApiRank& rank, ibcoll_group* group) {
  ibcoll_group* left = nullptr;
  rank.good(ibcoll_group_shrink(group, nullptr, &left), "shrink");
  return left;
}

/// Complains unless a sum over the group is that of these ranks of the job.
void expect_ranks(const ApiRank& rank, ibcoll_group* group, int64_t sum) {
  const int64_t mine = ibcoll_rank(rank.context);
  int64_t all = -1;
  rank.good(ibcoll_allreduce(group, &mine, &all, 1, IBCOLL_INT64, IBCOLL_SUM, nullptr), "sum");
  if (all != sum) rank.complain("other ranks");
}

/// Rank 0, another rank of its machine, the leader of another machine, another rank there, and a
/// machine's only one.
class MachineDeaths : public ::testing::TestWithParam<int> {
 protected:
  /// Runs a body on the survivors, with the group of all of them. `end`: the job's.
  static void after_death(const std::function<void(const ApiRank&, ibcoll_group*)>& body,
                          ibcoll_status end = IBCOLL_OK) {
    const auto survive = [&](const ApiRank& rank) {
      if (ibcoll_rank(rank.context) == GetParam()) raise(SIGKILL);
      ibcoll_group* const left = shrunk(rank, ibcoll_world(rank.context));
      if (left != nullptr) body(rank, left);
    };
    EXPECT_EQ(testing::joined(on_three_machines(), survive, end), "");
  }
  static int64_t sum_of_survivors() { return 0 + 1 + 2 + 3 + 4 - GetParam(); }
  /// The survivors but for the last one, who is on another machine than most.
  static bool is_last(const ApiRank& rank) {
    return ibcoll_rank(rank.context) == (GetParam() == 4 ? 3 : 4);
  }
  /// After a call that may have gone well on this rank, and on all of them has ended the job.
  static void expect_job_over(const ApiRank& rank, ibcoll_group* group, ibcoll_status got,
                              ibcoll_status wanted) {
    if (got == IBCOLL_OK) got = ibcoll_barrier(group, nullptr);
    if (got != wanted || ibcoll_last_error_scope() != IBCOLL_SCOPE_JOB)
      rank.complain(std::string("not the end of the job: ") + ibcoll_last_error());
  }
};

TEST_P(MachineDeaths, DoNotHideThatRanksDisagreeLater) {
  after_death(
      [](const ApiRank& rank, ibcoll_group* left) {
        std::array<int, 8> mine{}, all{};
        const ibcoll_status status = is_last(rank)
                                         ? ibcoll_bcast(left, mine.data(), 4, 0, nullptr)
                                         : ibcoll_allreduce(left, mine.data(), all.data(), 8,
                                                            IBCOLL_INT32, IBCOLL_SUM, nullptr);
        expect_job_over(rank, left, status, IBCOLL_ERR_MISMATCH);
      },
      IBCOLL_ERR_MISMATCH);
}

TEST_P(MachineDeaths, LeaveTheDeadlineInForce) {
  SharedFlags& flags = SharedFlags::create();
  setenv("IBCOLL_DEADLINE", "2", 1);
  after_death(
      [&](const ApiRank& rank, ibcoll_group* left) {
        if (is_last(rank)) flags.await(0, 3);
        expect_job_over(rank, left, ibcoll_barrier(left, nullptr), IBCOLL_ERR_DEADLINE);
        flags.raise(0);
      },
      IBCOLL_ERR_DEADLINE);
  unsetenv("IBCOLL_DEADLINE");
}

TEST_P(MachineDeaths, LeaveGroupsThatCanBeCancelled) {
  after_death([](const ApiRank& rank, ibcoll_group* left) {
    if (is_last(rank)) rank.good(ibcoll_group_cancel(left), "cancel");
    const ibcoll_status met = ibcoll_barrier(left, nullptr);
    if (met != IBCOLL_ERR_CANCELLED || ibcoll_last_error_scope() != IBCOLL_SCOPE_GROUP)
      rank.complain(std::string("not cancelled: ") + ibcoll_last_error());
    ibcoll_group* const anew = shrunk(rank, left);
    expect_ranks(rank, anew, sum_of_survivors());
    rank.good(ibcoll_group_free(anew), "free");
    rank.good(ibcoll_group_free(left), "free");
  });
}

/// Ranks that have finalized wait for the others, and a death among these lets them go.
TEST_P(MachineDeaths, DoNotHoldUpWhoFinalizes) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(testing::joined(on_three_machines(),
                            [&](const ApiRank& rank) {
                              const int me = ibcoll_rank(rank.context);
                              rank.good(ibcoll_barrier(ibcoll_world(rank.context), nullptr),
                                        "meet");
                              flags.raise(0);
                              if (me != GetParam()) return;
                              flags.await(0, 5);
                              usleep(300'000);  // the others are in finalize
                              raise(SIGKILL);
                            }),
            "");
}

/// Nobody speaks for a machine whose leader has died while the other ranks there compute, for
/// longer than another machine may be silent.
TEST_P(MachineDeaths, AreSurvivedByRanksThatComputeForLong) {
  JoinedRun run = on_three_machines();
  run.silence_ms = 1000;
  EXPECT_EQ(testing::joined(run,
                            [](const ApiRank& rank) {
                              const int me = ibcoll_rank(rank.context), victim = GetParam();
                              if (me == victim) raise(SIGKILL);
                              const bool neighbour = victim < 4 && me == (victim ^ 1);
                              if (neighbour) sleep(4);
                              ibcoll_group* const left = shrunk(rank, ibcoll_world(rank.context));
                              if (left == nullptr) return;
                              expect_ranks(rank, left, sum_of_survivors());
                              rank.good(ibcoll_group_free(left), "free");
                            }),
            "");
}

/// The others need not wait for that to be told of the death.
TEST_P(MachineDeaths, AreToldWhileTheMachineComputes) {
  SharedFlags& flags = SharedFlags::create();
  const auto [victim, neighbour] = std::pair{GetParam(), GetParam() == 4 ? -1 : GetParam() ^ 1};
  EXPECT_EQ(testing::joined(on_three_machines(),
                            [&](const ApiRank& rank) {
                              const int me = ibcoll_rank(rank.context);
                              std::vector<int> others{0, 1, 2, 3, 4};
                              std::erase(others, neighbour);
                              ibcoll_group* const group =
                                  me == neighbour ? nullptr : group_of(rank, others, 1);
                              flags.raise(1);
                              flags.await(1, 5);  // all have made it
                              if (me == victim) raise(SIGKILL);
                              if (me == neighbour) {
                                flags.await(0, 3);
                              } else {
                                const ibcoll_status met = ibcoll_barrier(group, nullptr);
                                if (met != IBCOLL_ERR_PEER_FAILED ||
                                    ibcoll_last_error_scope() != IBCOLL_SCOPE_GROUP)
                                  rank.complain(std::string("not told: ") + ibcoll_last_error());
                                flags.raise(0);
                              }
                              ibcoll_group* const left = shrunk(rank, ibcoll_world(rank.context));
                              if (left == nullptr) return;
                              expect_ranks(rank, left, sum_of_survivors());
                              rank.good(ibcoll_group_free(left), "free");
                              if (group != nullptr) rank.good(ibcoll_group_free(group), "free");
                            }),
            "");
}

INSTANTIATE_TEST_SUITE_P(, MachineDeaths, ::testing::Range(0, 5),
                         [](const ::testing::TestParamInfo<int>& test) {
                           return "OfRank" + std::to_string(test.param);
                         });

}  // namespace
}  // namespace ibcoll
