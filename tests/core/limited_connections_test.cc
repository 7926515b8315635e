// Jobs whose ranks have fewer connections than peers (IBCOLL_MAX_CONNECTIONS).

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/transport/open.h"
#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::group_of;
using testing::launched;
using testing::SharedFlags;

class LimitedConnections : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string transport = GetParam();
    if (!usable_network_port(transport)) GTEST_SKIP() << "no port for " << transport << " here";
    setenv("IBCOLL_TRANSPORT", GetParam(), 1);
  }
  ~LimitedConnections() override {
    unsetenv("IBCOLL_MAX_CONNECTIONS");
    unsetenv("IBCOLL_TRANSPORT");
  }
  static void limit_to(const char* connections) {
    setenv("IBCOLL_MAX_CONNECTIONS", connections, 1);
  }
};

std::optional<uint64_t> counter(const ApiRank& rank, std::string_view name) {
  const char* found = nullptr;
  uint64_t value = 0;
  for (int i = 0; ibcoll_get_named_counter(rank.context, i, &found, &value) == IBCOLL_OK; ++i) {
    if (found == name) return value;
  }
  return std::nullopt;
}

/// An alltoall of the group whose data tell who sent them to whom in which call.
void exchange(const ApiRank& rank, ibcoll_group* group, int call, size_t numbers) {
  const int ranks = ibcoll_group_size(group), me = ibcoll_group_rank(group);
  const auto number = [call](int from, int to) { return (call * 64 + from) * 64 + to; };
  std::vector<int> send, recv(static_cast<size_t>(ranks) * numbers, -1);
  for (int to = 0; to < ranks; ++to) send.insert(send.end(), numbers, number(me, to));
  if (!rank.good(ibcoll_alltoall(group, send.data(), recv.data(), numbers * sizeof(int), nullptr),
                 "alltoall"))
    return;
  for (size_t i = 0; i < recv.size(); ++i) {
    if (recv[i] != number(static_cast<int>(i / numbers), me))
      return rank.complain("wrong data in call " + std::to_string(call));
  }
}

TEST_P(LimitedConnections, AreNeverMoreAndAllDataArrive) {
  const int calls = GetParam() == std::string_view("verbs") ? 4 : 40;  // each takes its time there
  for (const uint64_t limit : {1, 2, 3}) {
    limit_to(std::to_string(limit).c_str());
    EXPECT_EQ(launched("2,1,3,1,1", 8,
                       [limit, calls](const ApiRank& rank) {
                         ibcoll_group* const world = ibcoll_world(rank.context);
                         for (int call = 0; call < calls; ++call) {
                           exchange(rank, world, call, call % 2 == 0 ? 1 : 40'000);
                           if (counter(rank, "connections").value_or(99) > limit)
                             return rank.complain("more connections than it may have");
                         }
                         if (counter(rank, "connections_closed").value_or(0) == 0)
                           rank.complain("no connection was ever closed");
                       }),
              "")
        << limit;
  }
}

TEST_P(LimitedConnections, AreAllKeptWhereThereAreEnough) {
  limit_to("3");
  EXPECT_EQ(launched("1,1,1,1", 4,
                     [](const ApiRank& rank) {
                       for (int call = 0; call < 10; ++call)
                         exchange(rank, ibcoll_world(rank.context), call, 1);
                       if (counter(rank, "connections_closed"))
                         rank.complain("it has slots for no purpose");
                     }),
            "");
}

/// Whoever stays away from the library has connections that others need closed.
TEST_P(LimitedConnections, AreClosedByRanksThatAreInNoCall) {
  limit_to("1");
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(launched("1,1,1,1", 4,
                     [&](const ApiRank& rank) {
                       const int me = ibcoll_rank(rank.context);
                       exchange(rank, ibcoll_world(rank.context), 0, 1);
                       if (me == 0 || me == 3) {
                         ibcoll_group* const both = group_of(rank, {0, 3}, 1);
                         exchange(rank, both, 1, 1);
                         rank.good(ibcoll_group_free(both), "free");
                       }
                       if (me == 3) return flags.await(0, 3);
                       ibcoll_group* const others = group_of(rank, {0, 1, 2}, 2);
                       for (int call = 2; call < 10; ++call) exchange(rank, others, call, 100);
                       rank.good(ibcoll_group_free(others), "free");
                       flags.raise(0);
                     }),
            "");
}

TEST_P(LimitedConnections, StayWhatTheyAreWhileTheProgramHasAProgressThread) {
  limit_to("1");
  EXPECT_EQ(launched("1,1,1", 3,
                     [](const ApiRank& rank) {
                       for (const int on : {1, 0, 1, 0}) {
                         rank.good(ibcoll_set_progress_thread(rank.context, on), "thread");
                         for (int call = 0; call < 5; ++call)
                           exchange(rank, ibcoll_world(rank.context), call, 10);
                         if (ibcoll_get_thread_level(rank.context) != IBCOLL_THREAD_SERIALIZED)
                           rank.complain("another thread level");
                       }
                       rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE),
                                 "level");
                       exchange(rank, ibcoll_world(rank.context), 6, 10);
                     }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Over, LimitedConnections, ::testing::Values("loopback", "verbs"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ibcoll
