// Ranks that wait for each other in a cycle, each in a group that the next one has not come to:
// all get one error that names the calls.

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/api_job.h"
#include "tests/disagreements.h"

namespace ibcoll {
namespace {

using testing::CallMemory;
using testing::expect_named;
using testing::impatient;
using testing::job_of;
using testing::JobOptions;
using testing::make;
using testing::RankView;

struct Cycle {
  const char* name;
  std::vector<int> layout;
  bool on_sets = false;
};

class Cycles : public ::testing::TestWithParam<Cycle> {
 protected:
  /// Of a rank and the next one.
  static Result<std::shared_ptr<Group>> pair(Context& context, Rank rank) {
    const Rank next = (rank + 1) % context.size();
    const std::vector<Rank> ranks = {std::min(rank, next), std::max(rank, next)};
    return GetParam().on_sets ? context.groups().of_call(ranks, 0) : context.groups().create(ranks);
  }
};

TEST_P(Cycles, AreFound) {
  const JobOptions job = impatient(GetParam().layout);
  const Rank ranks = job.shape.ranks();
  std::vector<std::string> texts = {
      fmt::format("{} ranks wait for each other in a cycle: rank ", ranks)};
  for (Rank rank = 0; rank < ranks && ranks == 3; ++rank) {
    const Rank next = (rank + 1) % ranks;
    texts.push_back(fmt::format("rank {} in call 0 (alltoall) {} {{{}, {}}}", rank,
                                GetParam().on_sets ? "with tag 0 on the set" : "of its group",
                                std::min(rank, next), std::max(rank, next)));
  }
  expect_named(job, texts, [&](const RankView& rank) -> Status {
    IBCOLL_ASSIGN(const auto mine, pair(rank.context, rank.context.rank()));
    CallMemory memory;
    IBCOLL_TRY(make(*mine, memory.arguments(Collective::kAlltoall, 100)));
    const Rank before = (rank.context.rank() + rank.context.size() - 1) % rank.context.size();
    IBCOLL_ASSIGN(const auto other, pair(rank.context, before));
    return make(*other, memory.arguments(Collective::kAlltoall, 100));
  });
}

/// The same waits, but one rank has not come to its own yet, and makes the other call first.
TEST_P(Cycles, WithARankThatIsOnlyLateAreNone) {
  const JobOptions job = impatient(GetParam().layout);
  EXPECT_EQ(run_job(job,
                    [&](const RankView& rank) {
                      const Rank me = rank.context.rank(), size = rank.context.size();
                      const Rank before = (me + size - 1) % size;
                      if (me == 0) usleep(1'500'000);
                      for (const Rank first : {me == 0 ? before : me, me == 0 ? me : before}) {
                        const auto group = pair(rank.context, first);
                        if (!rank.good(group, "group")) return;
                        CallMemory memory;
                        if (!rank.good(make(**group, memory.arguments(Collective::kAlltoall, 100)),
                                       "call"))
                          return;
                      }
                    }),
            "");
}

void make_among(const RankView& rank, const std::vector<Rank>& ranks) {
  const auto group = rank.context.groups().create(ranks);
  CallMemory memory;
  if (rank.good(group, "group"))
    rank.good(make(**group, memory.arguments(Collective::kAlltoall, 100)), "call");
}

/// Rank 0 waits for rank 1 in a call that rank 3 has made, who waits for rank 2, who waits for
/// rank 0.
TEST(NoCycles, AreSeenWhereTheRankHasMadeTheCall) {
  EXPECT_EQ(run_job(impatient({2, 2}),
                    [](const RankView& rank) {
                      const Rank me = rank.context.rank();
                      if (me == 3) {
                        usleep(700'000);  // rank 0 has asked before it makes the call
                        const auto group = rank.context.groups().create({0, 1, 3});
                        if (!rank.good(group, "group")) return;
                        CallMemory memory;
                        Call call(**group);
                        if (!rank.good(call.prepare(memory.arguments(Collective::kAlltoall, 100)),
                                       "prepare") ||
                            !rank.good(call.start(), "start"))
                          return;
                        make_among(rank, {2, 3});
                        rank.good(call.wait(), "wait");
                        return;
                      }
                      if (me == 1) usleep(3'000'000);
                      if (me != 2) make_among(rank, {0, 1, 3});
                      if (me != 1) make_among(rank, {0, 2});
                      if (me == 2) make_among(rank, {2, 3});
                    }),
            "");
}

/// Rank 3 begins to wait for rank 1, who waits for rank 2, who waited for rank 0 in a group that
/// has ended since; rank 0 waits for rank 3 all the time.
TEST(NoCycles, AreSeenWhereARankWaitedInAGroupThatHasEnded) {
  EXPECT_EQ(run_job(impatient({2, 3}),
                    [](const RankView& rank) {
                      const Rank me = rank.context.rank();
                      if (me == 3) usleep(3'000'000);
                      if (me == 1) make_among(rank, {1, 2});
                      if (me == 1 || me == 3) make_among(rank, {1, 3});
                      if (me == 0 || me == 3) make_among(rank, {0, 3});
                      if (me == 1 || me == 3) return;
                      const auto group = rank.context.groups().create({0, 2, 4});
                      if (!rank.good(group, "group")) return;
                      if (me == 2) {
                        CallMemory memory;
                        const Status made =
                            make(**group, memory.arguments(Collective::kAlltoall, 100));
                        if (made || made.error().code != ErrorCode::kCancelled)
                          rank.complain(made ? "it ended well" : made.error().message);
                        usleep(3'500'000);
                        make_among(rank, {1, 2});
                      }
                      if (me == 4) {
                        usleep(1'500'000);
                        (*group)->services().executor.end_group(
                            (*group)->state(), {4, ErrorCode::kCancelled, "rank 4 ends it"});
                      }
                    }),
            "");
}

/// A rank that waits in a scan needs none of the ranks above it.
TEST(NoCycles, AreSeenWhereAScanNeedsOnlyARankThatIsLate) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}}) {
    EXPECT_EQ(run_job(impatient(layout),
                      [](const RankView& rank) {
                        const Rank me = rank.context.rank();
                        const auto two = rank.context.groups().create({1, 2});
                        CallMemory memory;
                        CallArguments scan = memory.arguments(Collective::kScan, 100);
                        scan.reduction =
                            find_reduction(ElementType::kInt32, Operator::kSum).value();
                        const CallArguments trade = memory.arguments(Collective::kAlltoall, 100);
                        if (me == 0) usleep(1'500'000);
                        if (me == 2 && !rank.good(make(**two, trade), "alltoall")) return;
                        if (!rank.good(make(rank.context.world(), scan), "scan")) return;
                        if (me == 1) rank.good(make(**two, trade), "alltoall");
                      }),
              "");
  }
}

/// Some wait in a group for a rank that waits for them in another one, until a third member ends
/// the group.
TEST(NoCycles, AreSeenWhereAnotherMemberEndsTheGroup) {
  for (const std::vector<int>& layout : {std::vector<int>{4}, {2, 2}, {1, 1, 1, 1}}) {
    EXPECT_EQ(run_job(job_of(layout),
                      [](const RankView& rank) {
                        const Rank me = rank.context.rank();
                        const auto group = rank.context.groups().create({0, 1, 2, 3}, 1);
                        if (!rank.good(group, "group")) return;
                        CallMemory memory;
                        const CallArguments trade = memory.arguments(Collective::kAlltoall, 100);
                        if (me == 0) {
                          usleep(1'500'000);
                          (*group)->services().executor.end_group(
                              (*group)->state(), {0, ErrorCode::kCancelled, "rank 0 ends it"});
                        } else if (me != 1) {
                          const Status made = make(**group, trade);
                          if (made || made.error().code != ErrorCode::kCancelled)
                            rank.complain(made ? "it ended well" : made.error().message);
                        }
                        rank.good(make(rank.context.world(), trade), "the world's call");
                      }),
              "");
  }
}

/// A wait with a deadline of its own ends.
TEST(NoCycles, AreSeenWhereACallHasADeadline) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}}) {
    int status = 0;
    EXPECT_EQ(run_job(
                  impatient(layout),
                  [&](const RankView& rank) {
                    const Rank me = rank.context.rank();
                    const auto mine = me == 2 ? rank.context.groups().create({0, 2})
                                              : rank.context.groups().create({me, me + 1});
                    const auto other = me == 0 ? rank.context.groups().create({0, 2})
                                               : rank.context.groups().create({me - 1, me});
                    CallMemory memory;
                    CallArguments trade = memory.arguments(Collective::kAlltoall, 100);
                    if (me == 1) trade.time_limit_ns = 1'500'000'000;
                    const Status first = make(**mine, trade);
                    trade.time_limit_ns = 0;
                    const Status second = make(**other, trade);
                    if (!first && first.error().code != ErrorCode::kDeadline)
                      rank.complain(first.error().message);
                    if (!second && second.error().code != ErrorCode::kDeadline)
                      rank.complain(second.error().message);
                  },
                  &status),
              "");
  }
}

const Cycle kCycles[] = {{"three", {3}},
                         {"three_servers", {1, 1, 1}},
                         {"two_servers", {2, 1}},
                         {"sets", {3}, true},
                         {"sets_on_servers", {1, 1, 1}, true},
                         {"seven", {7}},
                         {"seven_on_servers", {2, 3, 2}},
                         {"more_than_are_passed_on", {70}}};
INSTANTIATE_TEST_SUITE_P(Ways, Cycles, ::testing::ValuesIn(kCycles),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ibcoll
