// Neighbour collectives through the C interface: blocking, nonblocking and persistent.

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/core/neighbor_exchange.h"

namespace ibcoll {
namespace {

using testing::algorithms_for;
using testing::ApiRank;
using testing::create;
using testing::kAll;
using testing::launched;
using testing::Layout;
using testing::Lists;
using testing::NeighborExchange;
using testing::random_lists;

constexpr Layout kGraphLayouts[] = {{"1", 1},
                                    {"2", 2},
                                    {"1,1", 2},
                                    {"3", 3},
                                    {"2,1", 3},
                                    {"3,2", 5},
                                    {"2,1,4", 7},
                                    {"2,1,4", 7, "cyclic"},
                                    {"4,4,4", 12, "cyclic"}};

/// With the loopback in order, and with one that reorders what it may.
class NeighborCalls : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (*GetParam() != 0) setenv("IBCOLL_LOOPBACK_SEED", GetParam(), 1);
  }
  void TearDown() override { unsetenv("IBCOLL_LOOPBACK_SEED"); }
};

TEST_P(NeighborCalls, BringEveryBlockToItsPlace) {
  for (const Layout& layout : kGraphLayouts) {
    const auto body = [&](const ApiRank& rank) {
      const int me = ibcoll_rank(rank.context);
      const std::vector<Lists> all = random_lists(layout.ranks, 1);
      const Lists& mine = all[static_cast<size_t>(me)];
      ibcoll_graph* graph = nullptr;
      if (!rank.good(create(ibcoll_world(rank.context), mine, &graph), "create")) return;
      int number = 0;
      for (const ibcoll_collective collective : kAll) {
        std::vector<const char*> algorithms = algorithms_for(collective);
        algorithms.push_back("auto");
        for (const char* algorithm : algorithms) {
          for (const size_t words : {0, 1, 40, 3000}) {
            ibcoll_options options = IBCOLL_OPTIONS_INIT;
            options.algorithm = algorithm;
            NeighborExchange call(mine, me, ++number, collective, words);
            if (!rank.good(call.blocking(graph, &options), algorithm)) return;
            call.check(rank, algorithm);
          }
        }
      }
      rank.good(ibcoll_graph_free(graph), "free");
    };
    EXPECT_EQ(launched(layout.servers, layout.ranks, body, nullptr, layout.placement), "")
        << layout.servers;
  }
}

TEST_P(NeighborCalls, GoOnWhileTheProgramDoes) {
  EXPECT_EQ(
      launched("2,3", 5,
               [](const ApiRank& rank) {
                 const int me = ibcoll_rank(rank.context);
                 const Lists mine = random_lists(5, 2)[static_cast<size_t>(me)];
                 ibcoll_graph* graph = nullptr;
                 if (!rank.good(create(ibcoll_world(rank.context), mine, &graph), "create")) return;
                 std::vector<NeighborExchange> calls;
                 for (int i = 0; i < 12; ++i)
                   calls.emplace_back(mine, me, i, kAll[i % 4], static_cast<size_t>(i) * 50);
                 std::vector<ibcoll_request*> requests(calls.size());
                 for (size_t i = 0; i < calls.size(); ++i) {
                   ibcoll_options options = IBCOLL_OPTIONS_INIT;
                   options.algorithm = i % 3 == 0 ? "aggregated" : "direct";
                   const ibcoll_call call = calls[i].call(graph, &options);
                   if (!rank.good(ibcoll_call_init(ibcoll_world(rank.context), &call, &requests[i]),
                                  "init") ||
                       !rank.good(ibcoll_start(requests[i]), "start"))
                     return;
                 }
                 // What is under way keeps what it needs of the graph.
                 rank.good(ibcoll_graph_free(graph), "free");
                 rank.good(ibcoll_wait_all(static_cast<int>(requests.size()), requests.data()),
                           "wait");
                 for (size_t i = 0; i < calls.size(); ++i) {
                   calls[i].check(rank, "nonblocking");
                   rank.good(ibcoll_call_free(requests[i]), "free request");
                 }
               }),
      "");
}

TEST_P(NeighborCalls, MayBePersistent) {
  EXPECT_EQ(
      launched("2,3", 5,
               [](const ApiRank& rank) {
                 const int me = ibcoll_rank(rank.context);
                 const Lists mine = random_lists(5, 3)[static_cast<size_t>(me)];
                 ibcoll_graph* graph = nullptr;
                 if (!rank.good(create(ibcoll_world(rank.context), mine, &graph), "create")) return;
                 for (const ibcoll_collective collective : kAll) {
                   for (const char* algorithm : algorithms_for(collective)) {
                     ibcoll_options options = IBCOLL_OPTIONS_INIT;
                     options.algorithm = algorithm;
                     NeighborExchange exchange(mine, me, 5, collective, 100);
                     ibcoll_call call = exchange.call(graph, &options);
                     call.flags = IBCOLL_PERSISTENT;
                     ibcoll_request* request = nullptr;
                     if (!rank.good(ibcoll_call_init(ibcoll_world(rank.context), &call, &request),
                                    "init"))
                       return;
                     // They were copied.
                     for (auto* list : {&exchange.send_counts, &exchange.send_places,
                                        &exchange.recv_counts, &exchange.recv_places})
                       std::fill(list->begin(), list->end(), -1);
                     for (int i = 0; i < 3; ++i) {
                       std::fill(exchange.recv.begin(), exchange.recv.end(), -7);
                       if (!rank.good(ibcoll_start(request), "start") ||
                           !rank.good(ibcoll_wait(request), "wait"))
                         return;
                       exchange.check(rank, "persistent");
                     }
                     rank.good(ibcoll_call_free(request), "free request");
                   }
                 }
                 rank.good(ibcoll_graph_free(graph), "free");
               }),
      "");
}

INSTANTIATE_TEST_SUITE_P(Loopback, NeighborCalls, ::testing::Values("", "7"));

}  // namespace
}  // namespace ibcoll
