// Graphs through the C interface: such that agree and such that do not, what calls on them refuse,
// and how long they are needed.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/core/neighbor_exchange.h"
#include "tests/cxx_job.h"
#include "tests/proc.h"

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

/// Has ranks pass lists in which `change` has been made, expects one error on all, and that the
/// group goes on.
void expect_refused(const Layout& layout, const std::function<void(std::vector<Lists>&)>& change,
                    ibcoll_status expected, const std::string& line) {
  const auto body = [&](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    std::vector<Lists> all = random_lists(layout.ranks, 1);
    const std::vector<Lists> good = all;
    change(all);
    ibcoll_graph* graph = nullptr;
    const ibcoll_status status =
        create(ibcoll_world(rank.context), all[static_cast<size_t>(me)], &graph);
    const std::string text = status == IBCOLL_OK ? "made" : ibcoll_last_error();
    if (status != expected || text.find(line) == std::string::npos || graph != nullptr)
      rank.complain(fmt::format("{}: {}", static_cast<int>(status), text));
    if (ibcoll_last_error_scope() != IBCOLL_SCOPE_CALL) rank.complain("another scope");
    if (!rank.good(create(ibcoll_world(rank.context), good[static_cast<size_t>(me)], &graph),
                   "again"))
      return;
    NeighborExchange call(good[static_cast<size_t>(me)], me, 1, IBCOLL_NEIGHBOR_ALLTOALL, 10);
    if (rank.good(call.blocking(graph, nullptr), "call")) call.check(rank, "afterwards");
    rank.good(ibcoll_graph_free(graph), "free");
  };
  EXPECT_EQ(launched(layout.servers, layout.ranks, body, nullptr, layout.placement), "")
      << layout.servers << ": " << line;
}

TEST(NeighborGraphs, ThatDisagreeAreRefusedOnAllRanksAlike) {
  for (const Layout& layout : {Layout{"3", 3}, Layout{"1,1,1", 3}, Layout{"2,1,4", 7, "cyclic"}}) {
    const auto clear = [](std::vector<Lists>& all) {
      for (Lists& lists : all) lists = {};
    };
    expect_refused(
        layout,
        [&](std::vector<Lists>& all) {
          clear(all);
          all[0].destinations = {2, 2};
          all[2].sources = {0};
        },
        IBCOLL_ERR_MISMATCH, "rank 0 has 2 edges to rank 2, which has 1 edge from it");
    expect_refused(
        layout,
        [&](std::vector<Lists>& all) {
          clear(all);
          all[1].sources = {2};
        },
        IBCOLL_ERR_MISMATCH, "rank 2 has 0 edges to rank 1, which has 1 edge from it");
    expect_refused(
        layout, [&](std::vector<Lists>& all) { all[2].destinations.push_back(2); },
        IBCOLL_ERR_MISMATCH, "rank 2 has ");
    // As many in and out everywhere, but others.
    expect_refused(
        layout,
        [&](std::vector<Lists>& all) {
          clear(all);
          all[0] = {{1}, {1}};
          all[1] = {{2}, {2}};
          all[2] = {{0}, {0}};
        },
        IBCOLL_ERR_MISMATCH, "rank 0 has 1 edge to rank 1, which has 0 edges from it");
  }
}

TEST(NeighborGraphs, ThatCantBeRightAreRefusedOnAllRanksAlike) {
  for (const Layout& layout : {Layout{"3", 3}, Layout{"1,2", 3}}) {
    expect_refused(
        layout, [](std::vector<Lists>& all) { all[1].sources.push_back(3); }, IBCOLL_ERR_INVALID,
        "rank 1: 3 is among its sources: the group's ranks are 0 to 2");
    expect_refused(
        layout, [](std::vector<Lists>& all) { all[2].destinations.push_back(-1); },
        IBCOLL_ERR_INVALID, "rank 2: -1 is among its destinations");
  }
  EXPECT_EQ(
      launched("1,2", 3,
               [](const ApiRank& rank) {
                 ibcoll_graph* graph = nullptr;
                 const bool bad = ibcoll_rank(rank.context) == 2;
                 ibcoll_group* world = ibcoll_world(rank.context);
                 const auto refused = [&](ibcoll_status status, const std::string& text) {
                   if (status != IBCOLL_ERR_INVALID ||
                       std::string(ibcoll_last_error()).find(text) == std::string::npos)
                     rank.complain(ibcoll_last_error());
                 };
                 refused(ibcoll_graph_create(world, bad ? -1 : 0, nullptr, 0, nullptr, &graph),
                         "rank 2: -1 sources make no graph");
                 refused(ibcoll_graph_create(world, 0, nullptr, bad ? 1 : 0, nullptr, &graph),
                         "rank 2: the list of its destinations is null");
                 refused(ibcoll_graph_create(world, 0, nullptr, 0, nullptr, bad ? nullptr : &graph),
                         "rank 2: the place for the graph is null");
               }),
      "");
}

TEST(NeighborGraphs, ArgumentsOfCallsAreChecked) {
  EXPECT_EQ(
      launched(
          "2", 2,
          [](const ApiRank& rank) {
            const int me = ibcoll_rank(rank.context), other = 1 - me;
            ibcoll_group* world = ibcoll_world(rank.context);
            const Lists mine{{me, other}, {other, me}};
            ibcoll_graph *graph = nullptr, *second = nullptr;
            if (!rank.good(create(world, mine, &graph), "create")) return;
            const auto refused = [&](ibcoll_status status, const std::string& text) {
              if (status != IBCOLL_ERR_INVALID ||
                  std::string(ibcoll_last_error()).find(text) == std::string::npos)
                rank.complain(fmt::format("{} ({})", ibcoll_last_error(), text));
            };
            std::vector<int64_t> send(4), recv(4);
            const std::vector<int64_t> counts{8, 16}, places{0, 8}, wrong{8, -1};
            refused(ibcoll_neighbor_alltoall(graph, IBCOLL_IN_PLACE, recv.data(), 8, nullptr),
                    "neighbor_alltoall can't be in place");
            refused(ibcoll_neighbor_alltoall(nullptr, send.data(), recv.data(), 8, nullptr),
                    "the graph is null");
            refused(ibcoll_neighbor_alltoall(graph, nullptr, recv.data(), 8, nullptr),
                    "the send buffer is null");
            refused(ibcoll_neighbor_alltoallv(graph, send.data(), counts.data(), places.data(),
                                              recv.data(), wrong.data(), places.data(), nullptr),
                    "receive count -1 or displacement 8 of neighbour 1 is negative");
            refused(ibcoll_neighbor_alltoallv(graph, send.data(), counts.data(), places.data(),
                                              recv.data(), counts.data(), places.data(), nullptr),
                    "sends itself 16 bytes where it receives 8 from itself");
            refused(ibcoll_neighbor_allgatherv(graph, send.data(), 16, recv.data(), counts.data(),
                                               places.data(), nullptr),
                    "sends itself 16 bytes where it receives 8 from itself");
            ibcoll_request* request = nullptr;
            ibcoll_call call =
                ibcoll_call_neighbor_alltoall(nullptr, send.data(), recv.data(), 8, nullptr);
            refused(ibcoll_call_init(world, &call, &request), "the graph is null");
            const int both[] = {0, 1};
            ibcoll_group* group = nullptr;
            rank.good(ibcoll_group_create(rank.context, both, 2, &group), "group");
            if (!rank.good(create(group, mine, &second), "create on group")) return;
            call.graph = second;
            refused(ibcoll_call_init(world, &call, &request), "the graph is one of another group");
            // A graph may outlive its group's handle.
            rank.good(ibcoll_group_free(group), "free group");
            rank.good(ibcoll_neighbor_alltoall(second, send.data(), recv.data(), 8, nullptr),
                      "call");
            rank.good(ibcoll_graph_free(second), "free");
            refused(ibcoll_graph_free(second), "this graph is none any more");
          }),
      "");
}

TEST(NeighborGraphs, LengthsThatDisagreeAreNamed) {
  for (const char* algorithm : algorithms_for(IBCOLL_NEIGHBOR_ALLTOALLV)) {
    for (const char* layout : {"2", "1,1"}) {
      int status = 0;
      const std::string complaints = launched(
          layout, 2,
          [&](const ApiRank& rank) {
            const int me = ibcoll_rank(rank.context), other = 1 - me;
            ibcoll_graph* graph = nullptr;
            const Lists mine{{other}, {other}};
            if (!rank.good(create(ibcoll_world(rank.context), mine, &graph), "create")) return;
            ibcoll_options options = IBCOLL_OPTIONS_INIT;
            options.algorithm = algorithm;
            std::vector<int64_t> send(4), recv(4);
            const int64_t sent = me == 0 ? 16 : 8, received = 8, place = 0;
            const ibcoll_status result = ibcoll_neighbor_alltoallv(
                graph, send.data(), &sent, &place, recv.data(), &received, &place, &options);
            const std::string text = result == IBCOLL_OK ? "" : ibcoll_last_error();
            if (me == 1 && (text.find("rank 0") == std::string::npos ||
                            text.find("sends 16") == std::string::npos))
              rank.complain("not refused: " + text);
          },
          &status);
      EXPECT_EQ(complaints, "") << algorithm << " " << layout;
    }
  }
}

TEST(NeighborGraphs, ManyMadeAndFreedTakeNoMoreMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps what is freed";
#endif
  EXPECT_EQ(launched("2,2", 4,
                     [](const ApiRank& rank) {
                       const int me = ibcoll_rank(rank.context);
                       size_t before = 0;
                       for (uint32_t i = 0; i < 200; ++i) {
                         const Lists mine = random_lists(4, i)[static_cast<size_t>(me)];
                         ibcoll_graph* graph = nullptr;
                         if (!rank.good(create(ibcoll_world(rank.context), mine, &graph), "create"))
                           return;
                         NeighborExchange call(mine, me, 1, kAll[i % 4], 20);
                         if (!rank.good(call.blocking(graph, nullptr), "call")) return;
                         call.check(rank, "one of many");
                         rank.good(ibcoll_graph_free(graph), "free");
                         if (i == 50) before = testing::anonymous_bytes();
                       }
                       const size_t after = testing::anonymous_bytes();
                       if (before == 0 || after > before + (size_t{2} << 20))
                         rank.complain(fmt::format("{} bytes, then {}", before, after));
                     }),
            "");
}

TEST(NeighborGraphs, HaveACxxFace) {
  EXPECT_EQ(testing::on_four_ranks([](const context& job) {
              const group world = job.world();
              const int me = world.rank(), n = world.size();
              const std::vector<int> around{(me + 1) % n, (me + n - 1) % n}, none;
              graph ring = world.make_graph(around, around);
              testing::expect(ring.sources() == 2 && ring.destinations() == 2, "degrees");
              const std::vector<int> send{10 * me, 10 * me + 1};
              const std::vector<int> expected{10 * around[0] + 1, 10 * around[1]};
              const std::vector<int64_t> counts{4, 4}, places{4, 0}, short_list{4};
              std::vector<int> recv(2);
              const auto check = [&](const std::vector<int>& wanted, const std::string& what) {
                testing::expect(recv == wanted, what);
                recv.assign(2, -1);
              };
              const std::span<const int> out(send);
              const std::span<int> in(recv);
              ring.alltoall(out, in);
              check(expected, "alltoall");
              ring.ialltoall(out, in).wait();
              check(expected, "ialltoall");
              request again = ring.alltoall_init(out, in);
              for (int i = 0; i < 2; ++i) {
                again.start();
                again.wait();
                check(expected, "alltoall_init");
              }
              const std::vector<int> swapped{expected[1], expected[0]};
              const std::vector<int64_t> in_order{0, 4};
              ring.alltoallv(out, {counts, in_order}, in, {counts, places});
              check(swapped, "alltoallv");
              ring.ialltoallv(out, {counts, in_order}, in, {counts, places}).wait();
              check(swapped, "ialltoallv");
              const std::vector<int> of_each{10 * around[0], 10 * around[1]};
              ring.allgather(out.first(1), in);
              check(of_each, "allgather");
              ring.iallgatherv(out.first(1), in, {counts, in_order}).wait();
              check(of_each, "iallgatherv");
              const auto wrong = testing::thrown_by([&] {
                ring.alltoallv(out, {short_list, in_order}, in, {counts, places});
              });
              testing::expect(wrong.text.find("one displacement a neighbour") != std::string::npos,
                              wrong.text);
              const std::vector<int> loop{me};
              const auto refused =
                  testing::thrown_by([&] { (void)world.make_graph(me == 1 ? loop : none, none); });
              testing::expect(refused.status == IBCOLL_ERR_MISMATCH, refused.text);
              ring = world.make_graph(none, none);
              ring.alltoall(std::span<const int>(), std::span<int>());
            }),
            "");
}

TEST(NeighborGraphs, RanksWithoutNeighboursNeedNotKnowSizes) {
  for (const size_t words : {size_t{4}, size_t{1000}}) {
    EXPECT_EQ(launched("3,3", 6,
                       [&](const ApiRank& rank) {
                         const int me = ibcoll_rank(rank.context);
                         Lists lists;
                         if (me == 0 || me == 2) lists.destinations = {3, 4};
                         if (me == 3 || me == 4) lists.sources = {0, 2};
                         const bool alone = lists.sources.empty() && lists.destinations.empty();
                         ibcoll_graph* made = nullptr;
                         if (!rank.good(create(ibcoll_world(rank.context), lists, &made), "create"))
                           return;
                         for (const ibcoll_collective collective :
                              {IBCOLL_NEIGHBOR_ALLTOALL, IBCOLL_NEIGHBOR_ALLGATHER}) {
                           NeighborExchange call(lists, me, 0, collective, alone ? 0 : words);
                           if (!rank.good(call.blocking(made, nullptr), "call")) return;
                           call.check(rank, "with ranks that have no neighbours");
                         }
                         rank.good(ibcoll_graph_free(made), "free");
                       }),
              "")
        << words;
  }
}

TEST(NeighborGraphs, SeveralAreUsedInTurn) {
  EXPECT_EQ(launched("1,3", 4,
                     [](const ApiRank& rank) {
                       const int me = ibcoll_rank(rank.context);
                       std::vector<Lists> lists;
                       std::vector<ibcoll_graph*> graphs(12);
                       for (uint32_t i = 0; i < graphs.size(); ++i) {
                         lists.push_back(random_lists(4, i)[static_cast<size_t>(me)]);
                         if (!rank.good(create(ibcoll_world(rank.context), lists[i], &graphs[i]),
                                        "create"))
                           return;
                       }
                       for (int round = 0; round < 3; ++round) {
                         for (size_t i = 0; i < graphs.size(); ++i) {
                           NeighborExchange call(lists[i], me, round, kAll[i % 4], 16);
                           if (!rank.good(call.blocking(graphs[i], nullptr), "call")) return;
                           call.check(rank, "in turn");
                         }
                       }
                       // Those that are left are freed with the context.
                     }),
            "");
}

}  // namespace
}  // namespace ibcoll
