// Ranks that each take themselves for the root of a broadcast or scatter, and end it without
// waiting for anybody: all learn of it, at the latest when they leave the job.

#include <gtest/gtest.h>

#include <vector>

#include "tests/api_job.h"
#include "tests/disagreements.h"

namespace ibcoll {
namespace {

using testing::CallMemory;
using testing::expect_named;
using testing::job_of;
using testing::kLayouts;
using testing::make;
using testing::RankView;
using testing::SharedFlags;

/// What the calls with the wrong roots are made on, which is gone at once, but for the world.
enum class On { kGroup, kIdentifiedGroup, kSet, kWorld };

struct WrongWay {
  const char* name;
  On on;
  Collective collective;
  int later = 0;      ///< calls on the world that follow, by which each rank's notes are used up
  bool late = false;  ///< the last rank begins when the first one has made all its calls
};

class WrongRoots : public ::testing::TestWithParam<WrongWay> {
 protected:
  static Result<std::shared_ptr<Group>> group_of(Context& context) {
    std::vector<Rank> all(static_cast<size_t>(context.size()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Rank>(i);
    if (GetParam().on == On::kWorld) return std::shared_ptr<Group>(&context.world(), [](Group*) {});
    if (GetParam().on == On::kSet) return context.groups().of_call(all, 3);
    return context.groups().create(all, GetParam().on == On::kIdentifiedGroup ? 7 : 0);
  }
};

TEST_P(WrongRoots, AreFoundAlsoWhereTheGroupIsGoneAtOnce) {
  const WrongWay& way = GetParam();
  for (const std::vector<int>& layout : kLayouts) {
    for (const size_t bytes : {size_t{8}, size_t{2000}}) {
      SCOPED_TRACE(fmt::format("{} servers, {} bytes", layout.size(), bytes));
      SharedFlags& done = SharedFlags::create();
      // What the other one meant is forgotten after many calls.
      std::vector<std::string> texts = {"ranks 0 and 1 disagree on call 0"};
      if (way.later == 0) texts.emplace_back("rank 0 passes root 0, rank 1 1");
      expect_named(job_of(layout), texts, [&](const RankView& rank) -> Status {
        Context& context = rank.context;
        const Rank me = context.rank();
        if (way.late && me == 1) done.await(0, 1, 20'000);
        const auto calls = [&]() -> Status {
          CallMemory memory;
          {
            IBCOLL_ASSIGN(const auto group, group_of(context));
            IBCOLL_TRY(make(*group, memory.arguments(way.collective, bytes, me)));
          }
          done.raise(static_cast<size_t>(me));
          for (int i = 0; i < way.later; ++i)
            IBCOLL_TRY(make(context.world(), memory.arguments(Collective::kBcast, 8, 0)));
          return {};
        };
        return calls();
      });
    }
  }
}

/// The message comes to a rank that has freed the group and has no note of the call, as after many
/// others: it never made it.
TEST(WrongRootsOfGoneGroup, AreFoundInWhatComesLater) {
  SharedFlags& freed = SharedFlags::create();
  const std::vector<std::string> texts = {"ranks 0 and 1 disagree on call 0"};
  expect_named(job_of({2}), texts, [&freed](const RankView& rank) -> Status {
    Context& context = rank.context;
    if (context.rank() == 0) freed.await(0, 1);
    CallMemory memory;
    {
      IBCOLL_ASSIGN(const auto group, context.groups().create(std::vector<Rank>{0, 1}, 0));
      if (context.rank() == 0) IBCOLL_TRY(make(*group, memory.arguments(Collective::kBcast, 8, 0)));
    }
    freed.raise(0);
    return {};
  });
}

const WrongWay kWrongWays[] = {
    {"group", On::kGroup, Collective::kBcast},
    {"identified_group", On::kIdentifiedGroup, Collective::kBcast},
    {"scatter", On::kGroup, Collective::kScatter},
    {"set", On::kSet, Collective::kBcast},
    {"group_and_calls", On::kGroup, Collective::kBcast, 100},
    {"set_and_calls", On::kSet, Collective::kBcast, 100},
    {"world_and_calls", On::kWorld, Collective::kBcast, 100},
    {"late_group", On::kGroup, Collective::kBcast, 12, true},
    {"late_set", On::kSet, Collective::kBcast, 12, true},
};
INSTANTIATE_TEST_SUITE_P(Ways, WrongRoots, ::testing::ValuesIn(kWrongWays),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ibcoll
