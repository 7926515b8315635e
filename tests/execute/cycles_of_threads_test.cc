// Ranks of several threads that wait for each other: whether another thread might still make the
// call that is waited for.

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <tuple>

#include "tests/api_job.h"
#include "tests/disagreements.h"

namespace ibcoll {
namespace {

using testing::CallMemory;
using testing::expect_named;
using testing::impatient;
using testing::make;
using testing::RankView;

/// Two ranks that each wait for their own of two long broadcasts before they start the other one.
Status cross(Context& context, bool several, bool progress_thread) {
  constexpr size_t kBytes = 5'000'000;
  IBCOLL_TRY(context.threads().use(several, progress_thread));
  const EntryGuard::Entry entry(context.threads().guard());
  const Rank me = context.rank();
  IBCOLL_ASSIGN(const auto first, context.groups().create({0, 1}, 1));
  IBCOLL_ASSIGN(const auto second, context.groups().create({0, 1}, 2));
  std::vector<std::byte> data(kBytes);
  CallArguments bcast;
  bcast.collective = Collective::kBcast;
  bcast.block_bytes = kBytes;
  bcast.send = bcast.recv = data.data();
  for (const Rank root : {me, 1 - me}) {
    bcast.root = root;
    IBCOLL_TRY(make(root == 0 ? *first : *second, bcast));
  }
  return {};
}

class CrossedBroadcasts : public ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(CrossedBroadcasts, AreNamedWhereNoOtherThreadCouldMakeThem) {
#if defined(__SANITIZE_THREAD__)
  if (std::get<0>(GetParam())) GTEST_SKIP() << "the sanitizer's own thread might make the calls";
#endif
  for (const std::vector<int>& layout : testing::kLayouts) {
    expect_named(impatient(layout),
                 {"ranks 0 and 1 wait for each other",
                  "rank 0 in call 0 (bcast) of its group {0, 1} with identifier 1",
                  "rank 1 in call 0 (bcast) of its group {0, 1} with identifier 2"},
                 [&](const RankView& rank) {
                   return cross(rank.context, std::get<0>(GetParam()), std::get<1>(GetParam()));
                 });
  }
}
INSTANTIATE_TEST_SUITE_P(Threads, CrossedBroadcasts,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool()));

/// A thread that has not called yet makes the other call in time.
TEST(NoCycles, AreSeenWhereAnotherThreadMakesTheCallLater) {
  for (const std::vector<int>& layout : testing::kLayouts) {
    EXPECT_EQ(
        run_job(impatient(layout),
                [](const RankView& rank) {
                  Context& context = rank.context;
                  if (!rank.good(context.threads().use(true, false), "threads")) return;
                  const Rank me = context.rank();
                  const auto own = context.groups().create({0, 1}, static_cast<uint64_t>(1 + me));
                  const auto other = context.groups().create({0, 1}, static_cast<uint64_t>(2 - me));
                  if (!rank.good(own, "group") || !rank.good(other, "group")) return;
                  CallMemory first, second;
                  std::thread late([&] {
                    usleep(1'500'000);
                    const EntryGuard::Entry entry(context.threads().guard());
                    rank.good(make(**other, second.arguments(Collective::kAlltoall, 100)),
                              "the thread's call");
                  });
                  {
                    const EntryGuard::Entry entry(context.threads().guard());
                    rank.good(make(**own, first.arguments(Collective::kAlltoall, 100)), "call");
                  }
                  late.join();
                }),
        "");
  }
}

}  // namespace
}  // namespace ibcoll
