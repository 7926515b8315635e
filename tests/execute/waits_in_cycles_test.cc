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

/// A rank that waits in one call while it has made the other.
TEST_P(Cycles, WithARankThatHasMadeBothCallsAreNone) {
  if (GetParam().on_sets) GTEST_SKIP() << "the same as with groups";
  const JobOptions job = impatient(GetParam().layout);
  EXPECT_EQ(run_job(job,
                    [&](const RankView& rank) {
                      const Rank me = rank.context.rank(), size = rank.context.size();
                      const Rank before = (me + size - 1) % size;
                      const auto own = pair(rank.context, me), other = pair(rank.context, before);
                      if (!rank.good(own, "group") || !rank.good(other, "group")) return;
                      CallMemory memory, more;
                      Call first(**own), second(**other);
                      const CallArguments a = memory.arguments(Collective::kAlltoall, 100);
                      const CallArguments b = more.arguments(Collective::kAlltoall, 100);
                      if (!rank.good(first.prepare(a), "prepare") ||
                          !rank.good(second.prepare(b), "prepare"))
                        return;
                      if (me == 0) usleep(700'000);
                      if (me == 1 && !rank.good(second.start(), "start")) return;
                      if (!rank.good(first.start(), "start") || !rank.good(first.wait(), "wait"))
                        return;
                      if (me != 1 && !rank.good(second.start(), "start")) return;
                      rank.good(second.wait(), "wait");
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
                         {"seven_on_servers", {2, 3, 2}}};
INSTANTIATE_TEST_SUITE_P(Ways, Cycles, ::testing::ValuesIn(kCycles),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ibcoll
