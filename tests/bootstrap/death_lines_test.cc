// What survivors say of ranks that die one after the other: all the same, with the cause, also of
// those that died after the first one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/api_job.h"
#include "tests/faults.h"
#include "tests/shared_host.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::Complaints;
using ::testing::HasSubstr;
using testing::SharedFlags;
using testing::SharedHost;

constexpr int kRanks = 5, kVictims = 3;  // the last ones, the last one first

/// What the ranks that are left say of each death, once they wait for the dead one.
struct Lines {
  std::vector<Complaints*> of_waits, of_refusals;

  Lines() {
    for (int i = 0; i < kVictims; ++i) {
      of_waits.push_back(new Complaints(kRanks));
      of_refusals.push_back(new Complaints(kRanks));
    }
  }
  ~Lines() {
    for (Complaints* one : of_waits) delete one;
    for (Complaints* one : of_refusals) delete one;
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  void expect_one_cause() const {
    for (int death = 0; death < kVictims; ++death) {
      const int victim = kRanks - 1 - death;
      for (int rank = 0; rank < kRanks - kVictims; ++rank) {
        const auto size = static_cast<size_t>(death);
        const std::string line = of_waits[size]->of(rank);
        EXPECT_THAT(line, HasSubstr(fmt::format("rank {} (pid ", victim))) << "rank " << rank;
        EXPECT_THAT(line, HasSubstr("was killed by signal 9")) << "rank " << rank;
        EXPECT_EQ(testing::common(line), testing::common(of_waits[size]->of(0)));
        EXPECT_THAT(of_refusals[size]->of(rank), HasSubstr("was killed by signal 9"));
      }
    }
  }
};

void outlive(ibcoll_context* context, SharedFlags& flags, const Lines& lines) {
  const int me = ibcoll_rank(context);
  std::vector<int> ranks(kRanks);
  for (int i = 0; i < kRanks; ++i) ranks[static_cast<size_t>(i)] = i;
  for (int death = 0; death < kVictims; ++death) {
    const int left = kRanks - death, victim = left - 1;
    const auto number = static_cast<size_t>(death);
    ibcoll_group* group = nullptr;
    if (ibcoll_group_create(context, ranks.data(), left, &group) != IBCOLL_OK ||
        ibcoll_barrier(group, nullptr) != IBCOLL_OK) {
      lines.of_waits[number]->add(me, ibcoll_last_error());
      return;
    }
    flags.raise(number);
    if (me == victim) {
      flags.await(number, left);  // nobody is in the call that comes before
      raise(SIGKILL);
    }
    ibcoll_barrier(group, nullptr);
    lines.of_waits[number]->add(me, ibcoll_last_error());
    // Who has heard of the group's end by others may not know of the death yet.
    ibcoll_group_options options{sizeof options, 1};
    for (ibcoll_group* made = nullptr;
         ibcoll_group_create_with(context, ranks.data(), left, &options, &made) == IBCOLL_OK;
         ++options.id) {
      ibcoll_group_free(made);
      ibcoll_progress(context, nullptr);
    }
    lines.of_refusals[number]->add(me, ibcoll_last_error());
    ibcoll_group_free(group);
  }
}

TEST(DeathLines, AreTheSameOfAllSurvivorsOfALaunch) {
  const Lines lines;
  SharedFlags& flags = SharedFlags::create();
  int status = 0;
  testing::launched(
      nullptr, kRanks, [&](const ApiRank& rank) { outlive(rank.context, flags, lines); }, &status);
  lines.expect_one_cause();
}

TEST(DeathLines, AreTheSameOfAllSurvivorsOfAHostsJob) {
  const Lines lines;
  SharedFlags& flags = SharedFlags::create();
  SharedHost& host = SharedHost::create();
  testing::run_ranks(kRanks, [&](int rank) -> std::string {
    SharedHost::Member member(host, rank, kRanks);
    const ibcoll_bootstrap given = member.blocking();
    ibcoll_context* context = nullptr;
    if (ibcoll_init_with(&given, &context) != IBCOLL_OK) return ibcoll_last_error();
    outlive(context, flags, lines);
    ibcoll_finalize(context);
    return "";
  });
  lines.expect_one_cause();
}

}  // namespace
}  // namespace ibcoll
