#include "engine/bootstrap/bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <thread>

#include "engine/bootstrap/binding.h"
#include "engine/bootstrap/descriptors.h"
#include "engine/bootstrap/machine.h"
#include "engine/bootstrap/machine_watch.h"
#include "engine/bootstrap/self.h"
#include "engine/bootstrap/shared_region.h"
#include "tests/bootstrap/both_starts.h"
#include "tests/forwarding_bootstrap.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(, BothStarts, kBothStarts, name_of_start);

TEST_P(BothStarts, AllgatherGivesEveryContributionInRankOrder) {
  for (const int ranks : {1, 2, 5, 16}) {
    const auto result = launch(ranks, [&](Bootstrap& bootstrap) -> int {
      if (bootstrap.size() != ranks) return kWrong;
      for (const size_t bytes :
           {size_t{1}, size_t{4087}, size_t{4088}, size_t{4089}, size_t{50000}}) {
        const std::vector<uint8_t> mine(bytes, static_cast<uint8_t>(bootstrap.rank() + 1));
        std::vector<uint8_t> all(bytes * static_cast<size_t>(ranks), 0xee);
        if (!bootstrap.allgather(mine.data(), bytes, all.data())) return kWrong;
        for (size_t i = 0; i < all.size(); ++i)
          if (all[i] != i / bytes + 1) return kWrong;
      }
      return kGood;
    });
    EXPECT_EQ(result.value(), kGood) << ranks << " ranks";
  }
}

TEST_P(BothStarts, AllgatherOfSomeGivesWhatTheyGave) {
  const std::vector<std::vector<Rank>> choices = {{}, {0}, {6}, {1, 2, 5}, {0, 1, 2, 3, 4, 5, 6}};
  const auto result = launch(7, [&](Bootstrap& bootstrap) -> int {
    for (const std::vector<Rank>& givers : choices) {
      const bool gives = std::count(givers.begin(), givers.end(), bootstrap.rank()) > 0;
      for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4088}, size_t{4089}, size_t{50000}}) {
        const std::vector<uint8_t> mine(gives ? bytes : 0,
                                        static_cast<uint8_t>(bootstrap.rank() + 1));
        std::vector<uint8_t> all(bytes * givers.size(), 0xee);
        if (!bootstrap.allgather_of(givers, mine.data(), bytes, all.data())) return kWrong;
        for (size_t i = 0; i < all.size(); ++i)
          if (all[i] != givers[i / bytes] + 1) return kWrong;
      }
    }
    return kGood;
  });
  EXPECT_EQ(result.value(), kGood);
}

TEST_P(BothStarts, BarrierLetsNobodyThroughBeforeAllAreThere) {
  InSharedMemory<std::atomic<int>> entered;
  const auto result = launch(7, [&](Bootstrap& bootstrap) -> int {
    for (int round = 1; round <= 200; ++round) {
      entered->fetch_add(1, std::memory_order_relaxed);
      if (!bootstrap.barrier()) return kWrong;
      if (entered->load(std::memory_order_relaxed) < round * 7) return kWrong;
    }
    return kGood;
  });
  EXPECT_EQ(result.value(), kGood);
}

TEST_P(BothStarts, AllgatherOfDifferentSizesIsRefusedOnAllRanks) {
  const auto result = launch(3, [](Bootstrap& bootstrap) -> int {
    const size_t bytes = bootstrap.rank() == 1 ? 5000 : 8;
    std::vector<std::byte> mine(bytes), all(bytes * 3);
    const Status status = bootstrap.allgather(mine.data(), bytes, all.data());
    return !status && status.error().code == ErrorCode::kMismatch ? kGood : kNoError;
  });
  EXPECT_EQ(result.value(), kGood);
}

TEST_P(BothStarts, RanksThatDisagreeOnWhoGivesAreTold) {
  for (const bool by_all : {false, true}) {
    const auto result = launch(3, [&](Bootstrap& bootstrap) -> int {
      const std::vector<Rank> givers =
          bootstrap.rank() == 1 ? std::vector<Rank>{0, 1, 2} : std::vector<Rank>{0, 1};
      std::array<std::byte, 8> mine{};
      std::array<std::byte, 3 * 8> all{};
      const Status status =
          by_all && bootstrap.rank() == 1
              ? bootstrap.allgather(mine.data(), mine.size(), all.data())
              : bootstrap.allgather_of(givers, mine.data(), mine.size(), all.data());
      return !status && status.error().code == ErrorCode::kMismatch ? kGood : kNoError;
    });
    EXPECT_EQ(result.value(), kGood);
  }
}

TEST_P(BothStarts, TheFirstAbortIsWhatAllRanksSee) {
  InSharedMemory<std::array<char[64], 5>> seen;
  const auto result = launch(5, [&](Bootstrap& bootstrap) -> int {
    if (bootstrap.failure()) return kWrong;
    if (!bootstrap.barrier()) return kWrong;
    bootstrap.abort({bootstrap.rank(), ErrorCode::kDeadline,
                     fmt::format("rank {} gives up", bootstrap.rank())});
    const auto failure = bootstrap.failure();
    if (!failure || failure->code != ErrorCode::kDeadline) return kNoError;
    if (failure->what != fmt::format("rank {} gives up", failure->culprit)) return kWrong;
    std::strcpy((*seen)[static_cast<size_t>(bootstrap.rank())], failure->what.c_str());
    const Status after = bootstrap.barrier();
    return !after && after.error().message == failure->what ? kGood : kNoError;
  });
  EXPECT_EQ(result.value(), kGood);
  for (const auto& text : *seen) EXPECT_STREQ(text, (*seen)[0]);
}

TEST_P(BothStarts, ARankThatEndsWithAStatusIsReported) {
  const auto result = launch(4, [](Bootstrap& bootstrap) -> int {
    if (bootstrap.rank() == 2) return 9;
    const Status status = bootstrap.barrier();
    const auto failure = bootstrap.failure();
    if (status || !failure || failure->culprit != 2) return kNoError;
    return status.error().message.find("ended with status 9") != std::string::npos ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), 9);
}

TEST_P(BothStarts, WaitingForARankThatEndedInOrderFails) {
  const auto result = launch(3, [](Bootstrap& bootstrap) -> int {
    if (!bootstrap.barrier()) return kWrong;
    if (bootstrap.rank() == 1) return kGood;
    const Status status = bootstrap.barrier();
    if (status) return kNoError;
    return status.error().message == "rank 1 has left the job while others still wait for it"
               ? kGood
               : kWrong;
  });
  EXPECT_EQ(result.value(), kGood);
}

TEST_P(BothStarts, BadNumbersOfRanksAreRefused) {
  for (const int ranks : {0, -3, kMaxLaunchRanks + 1, 1 << 30}) {
    const auto result = launch(ranks, [](Bootstrap&) { return kGood; });
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message, HasSubstr(std::to_string(ranks)));
  }
}

TEST(Self, AProcessWithoutALauncherIsAJobOfOne) {
  const auto bootstrap = self_bootstrap();
  EXPECT_EQ(bootstrap->rank(), 0);
  EXPECT_EQ(bootstrap->size(), 1);
  const int mine = 7;
  int all = 0;
  ASSERT_TRUE(bootstrap->allgather(&mine, sizeof mine, &all));
  EXPECT_EQ(all, 7);
  ASSERT_TRUE(SharedRegion::create(*bootstrap, 0, 4096, "test").has_value());
  bootstrap->abort({0, ErrorCode::kDeadline, "too late"});
  bootstrap->abort({0, ErrorCode::kInternal, "second"});
  const Status status = bootstrap->barrier();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "too late");
}

std::vector<WatchedProcess> others(const Bootstrap& bootstrap, const JobPlaces& places) {
  std::vector<WatchedProcess> all = processes_at(places.here);
  std::erase_if(all, [&](const WatchedProcess& one) { return one.rank == bootstrap.rank(); });
  return all;
}

TEST(PeerWatch, FindsTheProcessThatDied) {
  InSharedMemory<std::atomic<int>> found;
  const auto result = launch_processes(quiet(4), [&](Bootstrap& bootstrap) -> int {
    auto places = exchange_places(bootstrap);
    if (!places) return kWrong;
    if (places->machines != std::vector<int>(4) || places->here.size() != 4) return kWrong;
    auto watch = PeerWatch::create(others(bootstrap, *places));
    if (!watch || watch->find_dead()) return kWrong;
    if (!bootstrap.barrier()) return kWrong;
    if (bootstrap.rank() == 2) kill(getpid(), SIGKILL);
    wait_until([&] { return watch->find_dead().has_value(); });
    const bool right = watch->find_dead() == 2 && watch->has_ended(2) && !watch->has_ended(0);
    watch->forget(2);
    const bool once = !watch->find_dead();
    // Nobody else ends before all have looked.
    found->fetch_add(1);
    wait_until([&] { return found->load() == 3; });
    return right && once ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), 128 + SIGKILL);
}

// Who begins to watch late: one process has ended, and its id may be another's by now.
TEST(PeerWatch, FindsThoseThatHaveEndedBefore) {
  const auto child = [](bool ends) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (!ends) pause();
      _exit(0);
    }
    return pid;
  };
  const pid_t ended = child(true), other = child(false), lives = child(false);
  const uint64_t start = process_start(other);
  EXPECT_GT(start, 0u);
  ASSERT_EQ(waitpid(ended, nullptr, 0), ended);
  auto watch = PeerWatch::create(
      std::vector<WatchedProcess>{{4, ended, start}, {5, other, start - 1}, {6, lives, 0}});
  ASSERT_TRUE(watch.has_value());
  EXPECT_TRUE(watch->has_ended(4));
  EXPECT_TRUE(watch->has_ended(5)) << "its id has passed on to another process";
  EXPECT_FALSE(watch->has_ended(6));
  kill(lives, SIGKILL);
  std::set<Rank> found;
  wait_until([&] {
    if (const auto dead = watch->find_dead()) found.insert(*dead);
    return found.size() == 3;
  });
  EXPECT_EQ(found, (std::set<Rank>{4, 5, 6}));
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  waitpid(lives, nullptr, 0);
}

TEST(MachineWatch, GoesByWhatTheLauncherSays) {
  InSharedMemory<std::atomic<int>> found;
  const auto result = launch_processes(quiet(4), [&](Bootstrap& bootstrap) -> int {
    auto places = exchange_places(bootstrap);
    if (!places) return kWrong;
    const size_t files = open_files();
    MachineWatch watch(bootstrap, processes_at(places->here));
    if (watch.find_dead() || watch.has_ended(2)) return kWrong;
    if (!bootstrap.barrier()) return kWrong;
    if (bootstrap.rank() == 2) kill(getpid(), SIGKILL);
    wait_until([&] { return watch.find_dead().has_value(); });
    const bool right = watch.find_dead() == 2 && watch.has_ended(2) && !watch.has_ended(0);
    watch.forget(2);
    const bool once = !watch.find_dead() && open_files() == files;
    found->fetch_add(1);
    wait_until([&] { return found->load() == 3; });
    return right && once ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), 128 + SIGKILL);
}

TEST(MachineWatch, WatchesItselfWhereNobodyDoes) {
  InSharedMemory<std::atomic<int>> found;
  const auto result = launch_processes(quiet(3), [&](Bootstrap& bootstrap) -> int {
    auto places = exchange_places(bootstrap);
    if (!places) return kWrong;
    /// As a rank whose leader has gone.
    class Unwatched final : public ForwardingBootstrap {
     public:
      using ForwardingBootstrap::ForwardingBootstrap;
      std::optional<Failure> end_of(Rank) const override { return std::nullopt; }
      uint32_t ends_noted() const override { return 0; }
      bool is_watched(Rank) const override { return false; }
    } unwatched(bootstrap);
    MachineWatch watch(unwatched, processes_at(places->here));
    if (!bootstrap.barrier()) return kWrong;
    if (bootstrap.rank() == 1) kill(getpid(), SIGKILL);
    wait_until([&] { return watch.find_dead().has_value(); });
    const bool right = watch.find_dead() == 1 && watch.has_ended(1) && !watch.has_ended(0);
    found->fetch_add(1);
    wait_until([&] { return found->load() == 2; });
    return right ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), 128 + SIGKILL);
}

TEST(Binding, RanksSpreadOverTheMachineAndShareCoresInTurn) {
  std::vector<CpuSet> cores;
  for (int core = 0; core < 8; ++core) cores.push_back({core, core + 8});
  const auto first_units = [&](int ranks) {
    std::vector<int> units;
    for (const CpuSet& set : plan_binding(ranks, cores)) units.push_back(set.front());
    return units;
  };
  EXPECT_EQ(first_units(2), (std::vector<int>{0, 4}));
  EXPECT_EQ(first_units(8), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(first_units(10), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1}));
  EXPECT_TRUE(plan_binding(4, {{0, 1}}).empty());
}

TEST(Binding, RanksRunWhereTheyAreBoundAndStillKnowTheMachine) {
  const int cores = usable_cores();
  ASSERT_GE(cores, 1);
  const auto& sets = usable_core_sets();
  ASSERT_TRUE(sets.has_value());
  const auto result = launch_processes(quiet(3), [&](Bootstrap& bootstrap) -> int {
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) return kWrong;
    const auto plan = plan_binding(3, *sets);
    if (!plan.empty()) {
      const CpuSet& mine = plan[static_cast<size_t>(bootstrap.rank())];
      if (static_cast<size_t>(CPU_COUNT(&mask)) != mine.size()) return kWrong;
      for (const int unit : mine)
        if (!CPU_ISSET(unit, &mask)) return kWrong;
    }
    return usable_cores() == cores ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), kGood);
}

TEST(Binding, TheEnvironmentCanForbidIt) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  ASSERT_EQ(setenv("IBCOLL_BIND", "none", 1), 0);
  const auto result = launch_processes(quiet(2), [&](Bootstrap&) -> int {
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) return kWrong;
    return CPU_EQUAL(&mask, &all) ? kGood : kWrong;
  });
  unsetenv("IBCOLL_BIND");
  EXPECT_EQ(result.value(), kGood);
}

TEST(Machine, IsTheSameToAllItsProcesses) {
  const MachineId mine = this_machine();
  EXPECT_NE(pid_namespace(), 0u);
  const auto result = launch_processes(
      quiet(2), [&](Bootstrap&) -> int { return this_machine() == mine ? kGood : kWrong; });
  EXPECT_EQ(result.value(), kGood);
}

TEST(Oversubscribed, CountsTheProcessorsAllRanksOfAMachineMayUseTogether) {
  const auto places_on = [](std::initializer_list<std::initializer_list<int>> masks) {
    std::vector<ProcessPlace> places;
    for (const auto& mask : masks) {
      places.emplace_back();
      for (const int cpu : mask) CPU_SET(cpu, &places.back().processors);
    }
    return places;
  };
  // Bound one by one, as mpirun does it: each sees a single processor, but none is shared.
  EXPECT_FALSE(oversubscribed(places_on({{0}, {1}, {2}})));
  EXPECT_TRUE(oversubscribed(places_on({{0}, {1}, {0}})));
  EXPECT_FALSE(oversubscribed(places_on({{0, 1}, {0, 1}})));
  EXPECT_TRUE(oversubscribed(places_on({{0}, {0}})));
}

}  // namespace
}  // namespace ibcoll
