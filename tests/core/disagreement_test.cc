// Ranks that mean different things by a call, made other groups or made them in another order: all
// get one error, which says what differs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "engine/core/exchange_counts.h"
#include "engine/core/graph_creation.h"
#include "tests/api_job.h"
#include "tests/disagreements.h"

namespace ibcoll {
namespace {

using testing::CallMemory;
using testing::Complaints;
using testing::expect_named;
using ::testing::HasSubstr;
using testing::impatient;
using testing::job_of;
using testing::JobOptions;
using testing::kLayouts;
using testing::make;
using testing::RankView;
using testing::SharedFlags;

TEST(Disagreement, OnTheRootIsFoundWhereEachTakesItselfForIt) {
  for (const std::vector<int>& layout : kLayouts) {
    for (const Collective collective : {Collective::kBcast, Collective::kScatter}) {
      for (const size_t bytes : {size_t{8}, size_t{100'000}}) {
        // In a later call, or when the job is left.
        for (const bool barrier : {true, false}) {
          SCOPED_TRACE(fmt::format("{} servers, {} of {} bytes{}", layout.size(),
                                   to_string(collective), bytes, barrier ? ", barrier" : ""));
          expect_named(job_of(layout), {"rank 0 passes root 0, rank 1 1"},
                       [=](const RankView& rank) -> Status {
                         CallMemory memory;
                         IBCOLL_TRY(make(rank.context.world(),
                                         memory.arguments(collective, bytes, rank.context.rank())));
                         if (!barrier) return {};
                         return make(rank.context.world(),
                                     memory.arguments(Collective::kBarrier, 0));
                       });
        }
      }
    }
  }
}

TEST(Disagreement, OnTheRootIsFoundWhereEachTakesTheOtherForIt) {
  for (const std::vector<int>& layout : kLayouts) {
    for (const bool tests : {false, true}) {
      expect_named(
          job_of(layout), {"rank 0 passes root 1, rank 1 0"}, [=](const RankView& rank) -> Status {
            CallMemory memory;
            Call call(rank.context.world());
            IBCOLL_TRY(
                call.prepare(memory.arguments(Collective::kBcast, 100, 1 - rank.context.rank())));
            IBCOLL_TRY(call.start());
            if (!tests) return call.wait();
            Result<bool> done = false;
            while (done && !*done) done = call.test();
            return done ? Status{} : tl::unexpected<Error>(done.error());
          });
    }
  }
}

TEST(Disagreement, OnAnythingIsNamed) {
  struct Case {
    Collective collective;
    std::function<void(CallArguments&)> other;  // what rank 1 means
    std::string text;
  };
  const std::vector<Case> cases = {
      {Collective::kAlltoall, [](CallArguments& a) { a.block_bytes = 4096; },
       "rank 0 passes blocks of 100 bytes, rank 1 4096 bytes"},
      {Collective::kAlltoall, [](CallArguments& a) { a.collective = Collective::kAllgather; },
       "rank 0 calls alltoall, rank 1 allgather"},
      {Collective::kAlltoall, [](CallArguments& a) { a.options.algorithm = "ring"; },
       "rank 0 runs algorithm linear, rank 1 ring"},
      {Collective::kAllgather, [](CallArguments& a) { a.options.pieces = 7; },
       "rank 0 cuts blocks into pieces: 1, rank 1 7"},
      {Collective::kReduce,
       [](CallArguments& a) {
         a.reduction = find_reduction(ElementType::kInt32, Operator::kMax).value();
       },
       "rank 0 combines int32 by sum, rank 1 int32 by max"},
      {Collective::kReduce,
       [](CallArguments& a) {
         a.reduction = find_reduction(ElementType::kFloat, Operator::kSum).value();
       },
       "rank 0 combines int32 by sum, rank 1 float by sum"},
      {Collective::kReduce, [](CallArguments& a) { a.options.ordered = true; },
       "rank 0 passes ordered = 0, rank 1 1"},
      {Collective::kGather, [](CallArguments& a) { a.root = 1; }, "rank 0 passes root 0, rank 1 1"},
  };
  for (const std::vector<int>& layout : kLayouts) {
    for (const Case& c : cases) {
      SCOPED_TRACE(c.text);
      expect_named(job_of(layout), {"ranks 0 and 1 disagree on call 0", c.text},
                   [&](const RankView& rank) -> Status {
                     CallMemory memory;
                     CallArguments arguments = memory.arguments(c.collective, 100);
                     if (c.collective == Collective::kAlltoall)
                       arguments.options.algorithm = "linear";
                     if (c.collective == Collective::kAllgather) {
                       arguments.options.algorithm = "ring";
                       arguments.options.pieces = 1;
                     }
                     if (rank.context.rank() == 1) c.other(arguments);
                     if (arguments.collective == Collective::kAllgather &&
                         c.collective != Collective::kAllgather)
                       arguments.options.algorithm = {};
                     IBCOLL_TRY(make(rank.context.world(), arguments));
                     return make(rank.context.world(), memory.arguments(Collective::kBarrier, 0));
                   });
    }
  }
}

/// What the engine does for the program is no call of the program's own, though it moves as much.
TEST(Disagreement, OnWhatACallIsForIsNamed) {
  using Body = std::function<Status(Group&)>;
  const auto call = [](Collective collective, size_t bytes) -> Body {
    return [=](Group& group) {
      CallMemory memory;
      CallArguments arguments = memory.arguments(collective, bytes);
      if (collective == Collective::kAllreduce)
        arguments.reduction = find_reduction(ElementType::kUint64, Operator::kSum).value();
      return make(group, arguments);
    };
  };
  const Body counts = [](Group& group) {
    std::vector<int64_t> send = {1, 2}, recv = {-1, -1};
    return exchange_counts(group, send.data(), recv.data());
  };
  const Body root_counts = [](Group& group) {
    std::vector<int64_t> all = {-1, -1};
    int64_t own = 3;
    return exchange_root_counts(group, &own, all.data(), 0);
  };
  const Body graph = [](Group& group) -> Status {
    IBCOLL_TRY(create_graph(group, {}));
    return {};
  };
  struct Case {
    Body one, other;
    std::string text;
    std::vector<std::vector<int>> layouts = kLayouts;
  };
  const std::vector<Case> cases = {
      {counts, call(Collective::kAlltoall, 16), "rank 0 calls exchange_counts, rank 1 alltoall"},
      {call(Collective::kGather, 8), root_counts,
       "rank 0 calls gather, rank 1 exchange_root_counts"},
      // One rank a server: the ranks of a server have nothing to tell each other.
      {graph,
       call(Collective::kAllreduce, 64),
       "rank 0 calls graph creation, rank 1 allreduce",
       {{1, 1}}},
      {graph, counts, "rank 0 calls graph creation, rank 1 exchange_counts"}};
  for (const Case& c : cases) {
    for (const std::vector<int>& layout : c.layouts) {
      SCOPED_TRACE(fmt::format("{}, {} servers", c.text, layout.size()));
      expect_named(job_of(layout), {"ranks 0 and 1 disagree on call 0", c.text},
                   [&](const RankView& rank) {
                     return (rank.context.rank() == 0 ? c.one : c.other)(rank.context.world());
                   });
    }
  }
}

/// Two groups of all ranks; `swapped`: made in the other order. `between`: so many calls on the
/// first before the second is made.
struct TwoGroups {
  std::shared_ptr<Group> first, second;

  static Result<TwoGroups> make_both(Context& context, bool swapped, int between) {
    TwoGroups made;
    std::vector<Rank> all(static_cast<size_t>(context.size()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Rank>(i);
    std::swap(all.front(), all.back());
    IBCOLL_ASSIGN(made.first, context.groups().create(all));
    for (int i = 0; i < between; ++i) {
      CallMemory memory;
      IBCOLL_TRY(make(*made.first, memory.arguments(Collective::kBarrier, 0)));
    }
    IBCOLL_ASSIGN(made.second, context.groups().create(all));
    if (swapped) std::swap(made.first, made.second);
    return made;
  }
};

TEST(Groups, OfTheSameRanksMadeInAnotherOrderAreNamed) {
  for (const std::vector<int>& layout : kLayouts) {
    // Used for different sizes.
    expect_named(job_of(layout), {"made in the same order?", "passes blocks of"},
                 [](const RankView& rank) -> Status {
                   CallMemory memory, more;
                   IBCOLL_ASSIGN(TwoGroups groups,
                                 TwoGroups::make_both(rank.context, rank.context.rank() == 1, 0));
                   Call one(*groups.first), other(*groups.second);
                   IBCOLL_TRY(one.prepare(memory.arguments(Collective::kAlltoall, 100)));
                   IBCOLL_TRY(other.prepare(more.arguments(Collective::kAlltoall, 200)));
                   IBCOLL_TRY(one.start());
                   IBCOLL_TRY(other.start());
                   IBCOLL_TRY(one.wait());
                   return other.wait();
                 });
    // One after another number of calls.
    expect_named(job_of(layout), {"after 2 calls on earlier groups of the same ranks", "after 3"},
                 [](const RankView& rank) -> Status {
                   CallMemory memory;
                   std::vector<Rank> all = {1, 0};
                   IBCOLL_ASSIGN(auto first, rank.context.groups().create(all));
                   std::shared_ptr<Group> second;
                   for (int i = 0; i < 3; ++i) {
                     if (i == 2 && rank.context.rank() == 0) {
                       IBCOLL_ASSIGN(second, rank.context.groups().create(all));
                     }
                     IBCOLL_TRY(make(*first, memory.arguments(Collective::kBarrier, 0)));
                   }
                   if (!second) {
                     IBCOLL_ASSIGN(second, rank.context.groups().create(all));
                   }
                   return make(*second, memory.arguments(Collective::kAlltoall, 100));
                 });
    // Blocking calls of the same kind: each waits in the group that the other has not come to.
    expect_named(impatient(layout), {"wait for each other", "2. group {1, 0}"},
                 [](const RankView& rank) -> Status {
                   CallMemory memory;
                   IBCOLL_ASSIGN(TwoGroups groups,
                                 TwoGroups::make_both(rank.context, rank.context.rank() == 1, 0));
                   IBCOLL_TRY(make(*groups.first, memory.arguments(Collective::kAlltoall, 100)));
                   return make(*groups.second, memory.arguments(Collective::kAlltoall, 100));
                 });
  }
}

TEST(Groups, OfOtherRanksAreNamed) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}}) {
    for (const Collective collective : {Collective::kAlltoall, Collective::kBcast}) {
      SCOPED_TRACE(fmt::format("{} servers, {}", layout.size(), to_string(collective)));
      expect_named(impatient(layout), {"wait for each other", "{0, 1, 2}", "{1, 0}"},
                   [=](const RankView& rank) -> Status {
                     const std::vector<Rank> ranks = rank.context.rank() == 1
                                                         ? std::vector<Rank>{1, 0}
                                                         : std::vector<Rank>{0, 1, 2};
                     IBCOLL_ASSIGN(auto group, rank.context.groups().create(ranks));
                     CallMemory memory;
                     // Everybody waits for somebody: rank 1 for 0, the others for 1.
                     const Rank root = 1;
                     return make(*group, memory.arguments(collective, 100, root));
                   });
    }
  }
}

/// The program's names for the groups are all that differs.
TEST(Groups, OfOtherIdentifiersAreNamed) {
  for (const std::vector<int>& layout : kLayouts) {
    expect_named(
        impatient(layout),
        {"wait for each other: rank 0 in call 0 (alltoall) of its group {0, 1} with "
         "identifier 7, rank 1 in call 0 (alltoall) of its group {0, 1} with identifier 8;"},
        [](const RankView& rank) -> Status {
          const uint64_t id = 7 + static_cast<uint64_t>(rank.context.rank());
          IBCOLL_ASSIGN(auto group, rank.context.groups().create({0, 1}, id));
          CallMemory memory;
          return make(*group, memory.arguments(Collective::kAlltoall, 100));
        });
    expect_named(impatient(layout),
                 {"wait for each other: rank 0 in call 0 (alltoall) with tag 0 on the set {0, 1}, "
                  "rank 1 in call 0 (alltoall) with tag 1 on the set {0, 1};"},
                 [](const RankView& rank) -> Status {
                   const auto tag = static_cast<uint64_t>(rank.context.rank());
                   IBCOLL_ASSIGN(auto group, rank.context.groups().of_call({0, 1}, tag));
                   CallMemory memory;
                   return make(*group, memory.arguments(Collective::kAlltoall, 100));
                 });
  }
}

TEST(Disagreement, OnTheLengthOfABlockNamesBothRanks) {
  Complaints errors(2);
  int status = 0;
  run_job(
      job_of({1, 1}),
      [&](const RankView& rank) {
        CallMemory memory;
        const std::vector<int64_t> counts = {10, 10}, more = {100, 10}, places = {0, 1000};
        CallArguments a = memory.arguments(Collective::kAlltoallv, 0);
        a.send_counts = counts.data();
        a.recv_counts = rank.context.rank() == 1 ? more.data() : counts.data();
        a.send_displacements = a.recv_displacements = places.data();
        a.options.algorithm = "linear";
        const Status made = make(rank.context.world(), a);
        errors.add(rank.context.rank(), made ? "it ended well" : made.error().message);
      },
      &status);
  for (const Rank rank : {0, 1})
    EXPECT_THAT(errors.of(rank), HasSubstr("rank 1 expects 100 bytes where rank 0 sends 10"));
}

/// After a death that the job survives, a disagreement still ends it on all ranks, with one text:
/// of two that are found, one counts.
TEST(Disagreement, AfterADeathEndsTheJobOfAllSurvivors) {
  Complaints errors(6);
  int status = 0;
  run_job(
      job_of({6}),
      [&](const RankView& rank) {
        const Rank me = rank.context.rank();
        CallMemory memory;
        auto pair = rank.context.groups().create(me < 2 ? std::vector{0, 1} : std::vector{2, 3});
        auto others = rank.context.groups().create({0, 1, 2, 3, 4});
        if (me == 5) raise(SIGKILL);
        const Status died = make(rank.context.world(), memory.arguments(Collective::kBarrier, 0));
        if (died || died.error().scope != Scope::kGroup) return errors.add(me, "nobody has died");
        const CallArguments a = memory.arguments(Collective::kAllgather, me % 2 == 0 ? 100 : 60);
        Status made = me < 4 ? make(**pair, a) : Status{};
        if (made) made = make(**others, memory.arguments(Collective::kBarrier, 0));
        errors.add(me, made ? "it ended well" : made.error().message);
      },
      &status);
  const auto common = [&](Rank rank) {
    return errors.of(rank).substr(0, errors.of(rank).find(';'));
  };
  EXPECT_THAT(common(0), HasSubstr("disagree on call 0"));
  for (Rank rank = 1; rank < 5; ++rank) EXPECT_EQ(common(rank), common(0));
}

TEST(Polling, KnowsTheDeadline) {
  for (const std::vector<int>& layout : kLayouts) {
    for (const useconds_t pause : {0, 5000}) {
      JobOptions job = job_of(layout);
      job.context.deadline_ns = 100'000'000;
      SharedFlags& has_ended = SharedFlags::create();
      Complaints errors(2);
      int status = 0;
      run_job(
          job,
          [&](const RankView& rank) {
            CallMemory memory;
            Call call(rank.context.world());
            if (rank.context.rank() == 1) return has_ended.await(0, 1, 20'000);
            if (!rank.good(call.prepare(memory.arguments(Collective::kAlltoall, 100)), "prepare") ||
                !rank.good(call.start(), "start"))
              return;
            Result<bool> done = false;
            while (done && !*done) {
              if (pause != 0) usleep(pause);
              done = call.test();
            }
            errors.add(0, done ? "it ended" : done.error().message);
            has_ended.raise(0);
          },
          &status);
      EXPECT_THAT(errors.of(0), HasSubstr("the deadline (IBCOLL_DEADLINE): rank 0 was waiting for "
                                          "rank 1"));
    }
  }
}

/// Until something stands on standard error, which is captured, or for 20'000 naps.
void wait_for_a_word() {
  struct stat said {};
  for (int naps = 0; naps < 20'000 && fstat(2, &said) == 0 && said.st_size == 0; ++naps)
    usleep(1000);
}

TEST(Polling, ReportsWhoIsLate) {
  JobOptions job = job_of({2});
  job.context.late_ns = 100'000'000;
  ::testing::internal::CaptureStderr();
  const std::string complaints = run_job(job, [](const RankView& rank) {
    CallMemory memory;
    Call call(rank.context.world());
    if (rank.context.rank() == 1) wait_for_a_word();
    if (!rank.good(call.prepare(memory.arguments(Collective::kAlltoall, 100)), "prepare") ||
        !rank.good(call.start(), "start"))
      return;
    Result<bool> done = false;
    while (done && !*done) done = call.test();
    rank.good(done, "test");
  });
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(complaints, "");
  EXPECT_THAT(log, HasSubstr("rank 0 was waiting for rank 1"));
}

}  // namespace
}  // namespace ibcoll
