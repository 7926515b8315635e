// Groups of those that are left after deaths (ibcoll_group_shrink), on one server and on several.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/transport/open.h"
#include "ibcoll/ibcoll.hpp"
#include "tests/api_job.h"
#include "tests/command.h"
#include "tests/expect_invalid.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::expect_invalid;
using testing::group_of;
using testing::launched;

std::vector<int> ranks_but(int ranks, const std::vector<int>& without) {
  std::vector<int> left;
  for (int rank = 0; rank < ranks; ++rank)
    if (std::find(without.begin(), without.end(), rank) == without.end()) left.push_back(rank);
  return left;
}

/// With "shm" on one server, else on several that this network joins.
class Shrink : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (on_one_server() || on_machines()) return;
    if (!usable_network_port(GetParam())) GTEST_SKIP() << "no port for " << GetParam() << " here";
    setenv("IBCOLL_TRANSPORT", GetParam(), 1);
  }
  ~Shrink() override {
    unsetenv("IBCOLL_MAX_CONNECTIONS");
    unsetenv("IBCOLL_TRANSPORT");
  }
  /// Whether ranks of different servers are on different machines, as far as the control
  /// connections go.
  static bool on_machines() { return std::string_view(GetParam()) == "machines"; }
  static bool on_one_server() { return std::string_view(GetParam()) == "shm"; }
  /// Of so many, as many as a machine whose network is emulated goes through in the same time.
  static uint32_t trials(uint32_t all) {
    return std::string_view(GetParam()) == "verbs" ? (all + 3) / 4 : all;
  }
  /// Of each rank: servers of two ranks, of one, of two, and so on; or of one each.
  static std::vector<int> servers_of(int ranks, int most) {
    std::vector<int> servers;
    for (int server = 0; static_cast<int>(servers.size()) < ranks; ++server) {
      const size_t next = servers.size() + (most == 2 && server % 2 == 0 ? 2 : 1);
      servers.resize(std::min(next, static_cast<size_t>(ranks)), server);
    }
    return servers;
  }
  static std::string layout(int ranks, int most = 2) {
    return on_one_server() ? std::to_string(ranks) : testing::layout_of(servers_of(ranks, most));
  }
  /// Runs a body on the ranks of a job; no survivor must fail.
  static void run(int ranks, const std::function<void(const ApiRank&)>& body, int most = 2) {
    if (on_machines()) {
      testing::JoinedRun run;
      run.machines = servers_of(ranks, most);
      run.to_die.resize(static_cast<size_t>(ranks));
      std::iota(run.to_die.begin(), run.to_die.end(), 0);
      EXPECT_EQ(testing::joined(run, body), "");
      return;
    }
    int status = 0;
    EXPECT_EQ(launched(layout(ranks, most).c_str(), ranks, body, &status, nullptr, true), "");
    EXPECT_EQ(status, 0) << "of the survivors";
  }
  /// The same where these die at once.
  static void after_deaths(int ranks, const std::vector<int>& victims,
                           const std::function<void(const ApiRank&)>& body) {
    run(ranks, [&](const ApiRank& rank) {
      if (std::ranges::count(victims, ibcoll_rank(rank.context)) != 0) raise(SIGKILL);
      body(rank);
    });
  }
  static void die_at_random(uint32_t trials, uint32_t seed);
  static void die_amid_shrinks(uint32_t trials, uint32_t seed);
};
class ShrinkFull : public Shrink {};

/// Which ranks of the job a group has, as its calls show; empty where these fail.
std::vector<int> members_of(const ApiRank& rank, ibcoll_group* group) {
  const int me = ibcoll_rank(rank.context);
  std::vector<int> members(static_cast<size_t>(ibcoll_group_size(group)), -1);
  const bool good = ibcoll_allgather(group, &me, members.data(), sizeof me, nullptr) == IBCOLL_OK;
  return good ? members : std::vector<int>();
}

/// Twenty calls of it, each checked; false where one fails because somebody has died.
bool goes_on(const ApiRank& rank, ibcoll_group* group) {
  const int size = ibcoll_group_size(group);
  for (int call = 0; call < 20; ++call) {
    std::vector<int64_t> send(1000, ibcoll_group_rank(group) + call), sum(1000);
    const ibcoll_status status = ibcoll_allreduce(group, send.data(), sum.data(), send.size(),
                                                  IBCOLL_INT64, IBCOLL_SUM, nullptr);
    if (status != IBCOLL_OK) {
      if (status != IBCOLL_ERR_PEER_FAILED || ibcoll_last_error_scope() != IBCOLL_SCOPE_GROUP)
        rank.complain(fmt::format("call {}: {}", call, ibcoll_last_error()));
      return false;
    }
    const int64_t expected = int64_t{size} * (size - 1) / 2 + int64_t{size} * call;
    if (std::count(sum.begin(), sum.end(), expected) != 1000) rank.complain("a sum is wrong");
  }
  return true;
}

ibcoll_group* shrunk(const ApiRank& rank, ibcoll_group* group) {
  ibcoll_group* left = nullptr;
  rank.good(ibcoll_group_shrink(group, nullptr, &left), "shrink");
  return left;
}

/// This process is killed so much later.
void die_after(std::chrono::microseconds delay) {
  sigevent killed{};
  killed.sigev_notify = SIGEV_SIGNAL;
  killed.sigev_signo = SIGKILL;
  timer_t timer{};
  const itimerspec when{{}, {delay.count() / 1'000'000, delay.count() % 1'000'000 * 1000 + 1}};
  if (timer_create(CLOCK_MONOTONIC, &killed, &timer) != 0 ||
      timer_settime(timer, 0, &when, nullptr) != 0)
    std::abort();
}

TEST_P(Shrink, LeavesOutWhoHasDied) {
  for (const std::vector<int>& victims :
       {std::vector<int>{0}, {4}, {1, 3}, {0, 1, 2, 3}, {2, 3, 4}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(victims, ",")));
    after_deaths(5, victims, [&](const ApiRank& rank) {
      ibcoll_group* const left = shrunk(rank, ibcoll_world(rank.context));
      if (left == nullptr) return;
      if (members_of(rank, left) != ranks_but(5, victims)) rank.complain("other members");
      if (!goes_on(rank, left)) rank.complain("it does not go on");
      std::vector<int> failed(5, -1);
      int count = 5;
      rank.good(ibcoll_group_failed(ibcoll_world(rank.context), failed.data(), &count), "failed");
      failed.resize(static_cast<size_t>(count));
      if (failed != victims) rank.complain("others have failed");
      int first = -1;
      count = 1;  // there is room for one of them
      rank.good(ibcoll_group_failed(ibcoll_world(rank.context), &first, &count), "failed");
      if (first != victims[0] || count != static_cast<int>(victims.size()))
        rank.complain("what there is no room for is not told");
      rank.good(ibcoll_group_free(left), "free");
    });
  }
}

TEST_P(Shrink, KeepsTheOrderOfTheGroup) {
  run(5, [](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    ibcoll_group* const group = me == 1 ? nullptr : group_of(rank, {4, 3, 0, 2}, 7);
    ibcoll_group* const others = group_of(rank, {0, 1, 2, 4, 3}, 8);
    // The last that rank 3 said may be lost with it.
    const ibcoll_status met = ibcoll_barrier(others, nullptr);
    if (met != IBCOLL_ERR_PEER_FAILED) rank.good(met, "barrier");
    if (me == 3) raise(SIGKILL);
    if (group != nullptr) {
      ibcoll_group* const left = shrunk(rank, group);
      if (members_of(rank, left) != std::vector<int>{4, 0, 2}) rank.complain("another order");
      rank.good(ibcoll_group_free(left), "free");
      rank.good(ibcoll_group_free(group), "free");
    }
    rank.good(ibcoll_group_free(others), "free");
  });
}

TEST_P(Shrink, LeavesOtherGroupsAsTheyAre) {
  run(5, [](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    ibcoll_group* const even = me % 2 == 0 ? group_of(rank, {0, 2, 4}, 3) : nullptr;
    ibcoll_request* open = nullptr;
    std::vector<int> mine(5000, me), all(15000);
    const ibcoll_call call = ibcoll_call_allgather(mine.data(), all.data(), 20000, nullptr);
    if (even != nullptr && me != 4) {
      rank.good(ibcoll_call_init(even, &call, &open), "init");
      rank.good(ibcoll_start(open), "start");
    }
    if (me == 1) raise(SIGKILL);
    ibcoll_group* const left = shrunk(rank, ibcoll_world(rank.context));
    if (me == 4) {
      rank.good(ibcoll_call_init(even, &call, &open), "init");
      rank.good(ibcoll_start(open), "start");
    }
    if (even != nullptr) {
      rank.good(ibcoll_wait(open), "a call across the death");
      if (all[0] != 0 || all[5000] != 2 || all[14999] != 4) rank.complain("data");
      rank.good(ibcoll_call_free(open), "free");
      if (!goes_on(rank, even)) rank.complain("the others' group has ended");
      rank.good(ibcoll_group_free(even), "free");
    }
    rank.good(ibcoll_group_free(left), "free");
  });
}

TEST_P(Shrink, OfAGroupThatIsWellHasTheSameRanks) {
  for (const int most : {2, 1}) {
    SCOPED_TRACE(most);
    run(
        3,
        [](const ApiRank& rank) {
          ibcoll_group* const world = ibcoll_world(rank.context);
          // As often as there would be no room for verdicts that nobody forgets.
          for (int i = 0; i < 100; ++i) {
            ibcoll_group* const left = shrunk(rank, world);
            if (left == nullptr) return;
            if (i % 20 == 0 && members_of(rank, left) != ranks_but(3, {}))
              rank.complain("other members");
            rank.good(ibcoll_group_free(left), "free");
          }
          int count = 0;
          rank.good(ibcoll_group_failed(world, nullptr, &count), "failed");
          if (count != 0) rank.complain("somebody has failed");
        },
        most);
  }
}

TEST_P(Shrink, MakesAGroupAnewThatWasEnded) {
  run(3, [](const ApiRank& rank) {
    ibcoll_group* group = group_of(rank, {0, 1, 2}, 5);
    if (ibcoll_rank(rank.context) == 1) rank.good(ibcoll_group_cancel(group), "cancel");
    ibcoll_group* const anew = shrunk(rank, group);
    if (!goes_on(rank, anew)) rank.complain("it does not go on");
    rank.good(ibcoll_group_free(anew), "free");
    rank.good(ibcoll_group_free(group), "free");
  });
}

TEST(ShrinkCalls, RefuseWhatCannotBe) {
  EXPECT_EQ(launched(nullptr, 1,
                     [](const ApiRank& rank) {
                       ibcoll_group *const world = ibcoll_world(rank.context), *made = nullptr;
                       int one = 0, count = 1, wrong = -1;
                       expect_invalid(ibcoll_group_shrink(nullptr, nullptr, &made), "group");
                       expect_invalid(ibcoll_group_shrink(world, nullptr, nullptr), "place");
                       const ibcoll_group_options unset{};
                       expect_invalid(ibcoll_group_shrink(world, &unset, &made), "struct_size 0");
                       expect_invalid(ibcoll_group_failed(nullptr, &one, &count), "group");
                       expect_invalid(ibcoll_group_failed(world, &one, nullptr), "null");
                       expect_invalid(ibcoll_group_failed(world, nullptr, &count), "no place");
                       expect_invalid(ibcoll_group_failed(world, &one, &wrong), "negative");
                       const uint64_t members = 1;
                       ibcoll_group* set = nullptr;
                       rank.good(ibcoll_set_group(rank.context, &members, 1, 0, &set), "set");
                       expect_invalid(ibcoll_group_shrink(set, nullptr, &made), "set");
                       expect_invalid(ibcoll_group_failed(set, &one, &count), "set");
                       rank.good(ibcoll_group_free(set), "free");
                       if (::testing::Test::HasFailure()) rank.complain("see above");
                     }),
            "");
}

TEST_P(Shrink, InCxx) {
  const int status = launch(
      4,
      [](context& c) {
        if (c.rank() == 2) raise(SIGKILL);
        const subgroup left = c.world().shrink();
        if (left.size() != 3 || c.world().failed() != std::vector<int>{2}) return 1;
        const std::vector<int> mine{c.rank()};
        std::vector<int> all(3);
        left.allgather<int>(mine, all);
        return all == std::vector<int>{0, 1, 3} ? 0 : 1;
      },
      layout(4), true);
  EXPECT_EQ(status, 0);
}

TEST_P(Shrink, LeavesOutWhoHasLeftSinceADeath) {
  after_deaths(5, {1}, [](const ApiRank& rank) {
    ibcoll_group* const left = shrunk(rank, ibcoll_world(rank.context));
    if (ibcoll_rank(rank.context) == 3) return;
    ibcoll_group* const without = shrunk(rank, left);
    if (members_of(rank, without) != std::vector<int>{0, 2, 4}) rank.complain("other members");
    rank.good(ibcoll_group_free(without), "free");
    rank.good(ibcoll_group_free(left), "free");
  });
}

TEST_P(Shrink, WhoReturnsEarlierIsNotMissedByOthers) {
  for (int trial = 0; trial < 5; ++trial) {
    after_deaths(4, {2}, [](const ApiRank& rank) {
      ibcoll_group* const left = shrunk(rank, ibcoll_world(rank.context));
      if (left == nullptr) return;
      const int me = ibcoll_rank(rank.context);
      int64_t data = me == 0 ? 5 : 0;
      // The root needs nobody, and returns at once.
      if (me == 3) usleep(50'000);
      rank.good(ibcoll_bcast(left, &data, sizeof data, 0, nullptr), "bcast");
      if (data != 5) rank.complain("other data");
      rank.good(ibcoll_group_free(left), "free");
    });
  }
}

TEST_P(Shrink, OfTwoGroupsByTwoThreads) {
  after_deaths(5, {4}, [](const ApiRank& rank) {
    rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE), "thread level");
    std::vector<ibcoll_group*> groups{ibcoll_world(rank.context), ibcoll_world(rank.context)};
    ibcoll_group* first = shrunk(rank, groups[0]);
    ibcoll_group* second = shrunk(rank, groups[1]);
    testing::ThreadsOf threads(rank);
    for (ibcoll_group* group : {first, second}) {
      threads.add([group] {
        ibcoll_group* made = nullptr;
        if (ibcoll_group_shrink(group, nullptr, &made) != IBCOLL_OK)
          return std::string(ibcoll_last_error());
        const bool good =
            ibcoll_group_size(made) == 4 && ibcoll_barrier(made, nullptr) == IBCOLL_OK;
        ibcoll_group_free(made);
        return std::string(good ? "" : "no barrier");
      });
    }
    threads.join();
    rank.good(ibcoll_group_free(first), "free");
    rank.good(ibcoll_group_free(second), "free");
  });
}

/// Victims die at any time, mostly in shrink() of an earlier victim's death. The others shrink
/// until twenty calls in a row have gone well after all victims are gone.
void Shrink::die_at_random(uint32_t trials, uint32_t seed) {
  std::mt19937 random(seed);
  for (uint32_t trial = 0; trial < trials; ++trial) {
    const int ranks = 3 + static_cast<int>(random() % 6);
    std::vector<int> order(static_cast<size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    order.resize(1 + random() % static_cast<uint32_t>(ranks - 1));
    std::sort(order.begin(), order.end());
    const std::vector<int>& victims = order;
    const int64_t base_us = random() % 3000;
    std::vector<int64_t> delays_us;
    for (size_t i = 0; i < victims.size(); ++i)
      delays_us.push_back(base_us + static_cast<int64_t>(random() % (i % 2 == 0 ? 2000 : 20000)));
    SCOPED_TRACE(fmt::format("trial {}: of {} ranks, {} die after {} us", trial, ranks,
                             fmt::join(victims, ","), fmt::join(delays_us, ",")));
    run(ranks, [&](const ApiRank& rank) {
      const int me = ibcoll_rank(rank.context);
      const auto mine = std::find(victims.begin(), victims.end(), me);
      if (mine != victims.end())
        die_after(std::chrono::microseconds(delays_us[mine - victims.begin()]));
      ibcoll_group* group = ibcoll_world(rank.context);
      for (int rounds = 0;; ++rounds) {
        const bool good = goes_on(rank, group);
        const bool over =
            good && ibcoll_group_size(group) == ranks - static_cast<int>(victims.size());
        if (over) break;
        if (good) continue;
        ibcoll_group* const left = shrunk(rank, group);
        if (left == nullptr) return;
        if (ibcoll_group_size(left) > ibcoll_group_size(group))
          rank.complain("the group has grown");
        if (group != ibcoll_world(rank.context)) rank.good(ibcoll_group_free(group), "free");
        group = left;
      }
      if (members_of(rank, group) != ranks_but(ranks, victims)) rank.complain("other members");
      rank.good(ibcoll_group_free(group), "free");
    });
    if (::testing::Test::HasFailure()) return;
  }
}

TEST_P(Shrink, WhoeverDiesWhenever) {
  const auto before = testing_tools::files_in_dev_shm();
  die_at_random(trials(15), 1);
  EXPECT_EQ(testing_tools::files_in_dev_shm(), before);
}

/// All ranks shrink again and again until one or two have died in it. A barrier that ends well on
/// some ranks alone must not tell them apart: they would wait for each other, until the deadline.
void Shrink::die_amid_shrinks(uint32_t trials, uint32_t seed) {
  std::mt19937 random(seed);
  setenv("IBCOLL_DEADLINE", "20", 1);
  for (uint32_t trial = 0; trial < trials && !::testing::Test::HasFailure(); ++trial) {
    const int ranks = 3 + static_cast<int>(random() % 3);
    const int victims = 1 + static_cast<int>(random() % 2);
    const std::array<uint64_t, 2> delays_us{1000 + random() % 2000, 1000 + random() % 2000};
    SCOPED_TRACE(fmt::format("trial {}: {} of {} ranks die", trial, victims, ranks));
    run(ranks, [&](const ApiRank& rank) {
      const int me = ibcoll_rank(rank.context);
      if (me < victims) die_after(std::chrono::microseconds(delays_us[me]));
      ibcoll_group* const world = ibcoll_world(rank.context);
      for (ibcoll_group* group = world;;) {
        ibcoll_group* const left = shrunk(rank, group);
        if (group != world) rank.good(ibcoll_group_free(group), "free");
        if (left == nullptr) return;
        group = left;
        if (ibcoll_group_size(group) > ranks - victims) continue;
        if (ibcoll_group_rank(group) != me - victims) rank.complain("another rank");
        rank.good(ibcoll_group_free(group), "free");
        return;
      }
    });
  }
  unsetenv("IBCOLL_DEADLINE");
}

TEST_P(Shrink, WhoeverDiesAmidIt) { die_amid_shrinks(trials(40), 1); }

/// What a rank holds of those that have died, it gives back: others may wait for that.
TEST_P(Shrink, WithFewConnections) {
  if (on_one_server()) GTEST_SKIP() << "one server has no connections";
  setenv("IBCOLL_MAX_CONNECTIONS", "2", 1);
  after_deaths(7, {1, 4}, [](const ApiRank& rank) {
    ibcoll_group* const left = shrunk(rank, ibcoll_world(rank.context));
    if (left == nullptr) return;
    for (int call = 0; call < 5; ++call) {
      const std::vector<int> send(5, ibcoll_group_rank(left));
      std::vector<int> recv(5, -1);
      rank.good(ibcoll_alltoall(left, send.data(), recv.data(), sizeof(int), nullptr), "alltoall");
      if (recv != std::vector<int>{0, 1, 2, 3, 4}) rank.complain("wrong data");
    }
    rank.good(ibcoll_group_free(left), "free");
  });
  die_at_random(trials(8), 3);
}

/// The others' memory is theirs again when a call has ended because of a death, whoever else was
/// about to write to it.
TEST_P(Shrink, NobodyWritesToWhatWasGivenBack) {
  for (uint32_t trial = 0; trial < trials(12); ++trial) {
    SCOPED_TRACE(trial);
    run(5, [trial](const ApiRank& rank) {
      const int me = ibcoll_rank(rank.context);
      if (me == static_cast<int>(trial % 5))
        die_after(std::chrono::microseconds(500 + trial * 300));
      ibcoll_group* const world = ibcoll_world(rank.context);
      constexpr size_t kBytes = 100'000;
      std::vector<std::byte> send(5 * kBytes, std::byte{1}), recv(5 * kBytes);
      ibcoll_status status = IBCOLL_OK;
      while (status == IBCOLL_OK)
        status = ibcoll_alltoall(world, send.data(), recv.data(), kBytes, nullptr);
      std::fill(recv.begin(), recv.end(), std::byte{7});
      ibcoll_group* const left = shrunk(rank, world);
      if (left == nullptr) return;
      rank.good(ibcoll_barrier(left, nullptr), "barrier");
      if (std::ranges::count(recv, std::byte{7}) != static_cast<ptrdiff_t>(recv.size()))
        rank.complain("somebody has written to it");
      rank.good(ibcoll_group_free(left), "free");
    });
  }
}

TEST_P(ShrinkFull, WhoeverDiesWhenever) { die_at_random(trials(400), 2); }

TEST_P(ShrinkFull, WhoeverDiesAmidIt) { die_amid_shrinks(trials(1000), 2); }

std::string network_of(const ::testing::TestParamInfo<const char*>& test) { return test.param; }
INSTANTIATE_TEST_SUITE_P(, Shrink, ::testing::Values("shm", "loopback", "verbs", "machines"),
                         network_of);
INSTANTIATE_TEST_SUITE_P(, ShrinkFull, ::testing::Values("shm", "loopback", "verbs", "machines"),
                         network_of);

}  // namespace
}  // namespace ibcoll
