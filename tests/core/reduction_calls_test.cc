// Reductions whose results all ranks get: arguments, disagreement, and the interfaces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <numeric>

#include "tests/api_job.h"
#include "tests/cxx_job.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::Complaints;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::launched;
using testing::RankView;
using testing::run_job;

/// Every rank must get an error that says so.
void expect_disagreement(const std::vector<int>& layout, const std::string& text,
                         const std::function<void(CallArguments&)>& change) {
  const std::vector<int64_t> counts = {1000, 2000, 3000};
  JobOptions job;
  job.shape = Shape::from_layout(layout, Placement::kBlock).value();
  Complaints errors(3);
  int status = 0;
  run_job(
      job,
      [&](const RankView& rank) {
        std::vector<int32_t> send(6001), recv(6001);
        CallArguments a;
        a.collective = Collective::kReduceScatter;
        a.send = send.data();
        a.recv = recv.data();
        a.recv_counts = counts.data();
        a.block_bytes = 8000;
        a.reduction = find_reduction(ElementType::kInt32, Operator::kSum).value();
        if (rank.context.rank() == 1) change(a);
        const auto make = [&](const CallArguments& arguments) -> Status {
          Call call(rank.context.world());
          IBCOLL_TRY(call.prepare(arguments));
          IBCOLL_TRY(call.start());
          return call.wait();
        };
        Status made = make(a);
        if (made) made = make({});  // somebody may be done before it can know
        if (!made) errors.add(rank.context.rank(), made.error().message);
      },
      &status);
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_THAT(errors.of(rank), HasSubstr(text));
}

TEST(ReductionCalls, RanksThatDisagreeAreTold) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 1, 1}, {2, 1}}) {
    static const std::vector<int64_t> others = {1000, 2001, 3000};
    expect_disagreement(layout, "pass different counts",
                        [](CallArguments& a) { a.recv_counts = others.data(); });
    expect_disagreement(layout, "int32 by max", [](CallArguments& a) {
      a.reduction = find_reduction(ElementType::kInt32, Operator::kMax).value();
    });
    expect_disagreement(layout, "uint32 by sum", [](CallArguments& a) {
      a.reduction = find_reduction(ElementType::kUint32, Operator::kSum).value();
    });
    expect_disagreement(layout, "reduce_scatter_block",
                        [](CallArguments& a) { a.collective = Collective::kReduceScatterBlock; });
  }
}

TEST(ReductionCalls, BadArgumentsAreRefused) {
  JobOptions job;
  job.shape = Shape::single_server(2);
  EXPECT_EQ(run_job(job,
                    [](const RankView& rank) {
                      std::vector<int32_t> send(10), recv(10);
                      std::array<int64_t, 2> counts = {4, -1};
                      CallArguments a;
                      a.collective = Collective::kReduceScatter;
                      a.send = send.data();
                      a.recv = recv.data();
                      a.reduction = find_reduction(ElementType::kInt32, Operator::kSum).value();
                      const auto refused = [&](const char* why) {
                        const Status status = Call(rank.context.world()).prepare(a);
                        if (status || status.error().message.find(why) == std::string::npos)
                          rank.complain(status ? why : status.error().message);
                      };
                      refused("the receive counts are null");
                      a.recv_counts = counts.data();
                      refused("receive count -1 of rank 1 is negative");
                      counts[1] = INT64_MAX;
                      refused("add up to more than 2^62 bytes at rank 1");
                      counts = {4, 7};
                      a.send_limit = 40;
                      refused("the send buffer is too small: it has 40 bytes, the call uses 44");
                      a.in_place = true;
                      a.send = nullptr;
                      a.recv_limit = 40;
                      refused("the receive buffer is too small: it has 40 bytes, the call uses 44");
                    }),
            "");
}

/// The three forms of a call.
template <class Block, class Start, class Init>
void in_all_forms(const Block& block, const Start& start, const Init& init,
                  const std::function<void(const char*)>& check) {
  block();
  check("blocking");
  start().wait();
  check("nonblocking");
  request persistent = init();
  for (int round = 0; round < 3; ++round) {
    persistent.start();
    persistent.wait();
    check("persistent");
  }
}

void use_cxx(const group& g, const ApiRank& rank) {
  const int me = g.rank(), size = g.size();
  constexpr size_t kCount = 300;
  std::vector<int64_t> mine(kCount), recv(kCount);
  for (size_t i = 0; i < kCount; ++i) mine[i] = static_cast<int64_t>(i) + me;
  // Of so many ranks, from rank 0 on.
  const auto is_sum = [&](const std::vector<int64_t>& got, int ranks, int64_t first,
                          const std::string& what) {
    for (size_t i = 0; i < got.size(); ++i) {
      const int64_t at = first + static_cast<int64_t>(i);
      if (got[i] == ranks * at + ranks * (ranks - 1) / 2) continue;
      return rank.complain(fmt::format("{}: element {} is {}", what, i, got[i]));
    }
  };
  in_all_forms([&] { g.allreduce<int64_t>(mine, recv, IBCOLL_SUM); },
               [&] { return g.iallreduce<int64_t>(mine, recv, IBCOLL_SUM); },
               [&] { return g.allreduce_init<int64_t>(mine, recv, IBCOLL_SUM); },
               [&](const char* form) {
                 is_sum(recv, size, 0, fmt::format("{} allreduce", form));
                 std::fill(recv.begin(), recv.end(), -1);
               });
  in_all_forms([&] { g.scan<int64_t>(mine, recv, IBCOLL_SUM); },
               [&] { return g.iscan<int64_t>(mine, recv, IBCOLL_SUM); },
               [&] { return g.scan_init<int64_t>(mine, recv, IBCOLL_SUM); },
               [&](const char* form) {
                 is_sum(recv, me + 1, 0, fmt::format("{} scan", form));
                 std::fill(recv.begin(), recv.end(), -1);
               });
  in_all_forms([&] { g.exscan<int64_t>(mine, recv, IBCOLL_SUM); },
               [&] { return g.iexscan<int64_t>(mine, recv, IBCOLL_SUM); },
               [&] { return g.exscan_init<int64_t>(mine, recv, IBCOLL_SUM); },
               [&](const char* form) {
                 if (me > 0) is_sum(recv, me, 0, fmt::format("{} exscan", form));
                 if (me == 0 && recv[7] != -1) rank.complain("exscan wrote to rank 0");
                 std::fill(recv.begin(), recv.end(), -1);
               });
  // In place what is there is used up.
  const auto fill = [&](std::vector<int64_t>& data) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int64_t>(i) + me;
  };
  fill(recv);
  g.allreduce_in_place<int64_t>(recv, IBCOLL_SUM);
  is_sum(recv, size, 0, "allreduce in place");
  fill(recv);
  g.iscan_in_place<int64_t>(recv, IBCOLL_SUM).wait();
  is_sum(recv, me + 1, 0, "scan in place");
  fill(recv);
  g.exscan_in_place<int64_t>(recv, IBCOLL_SUM);
  is_sum(recv, me == 0 ? 1 : me, 0, "exscan in place");

  std::vector<int64_t> wide(kCount * static_cast<size_t>(size)), counts(static_cast<size_t>(size));
  fill(wide);
  in_all_forms([&] { g.reduce_scatter_block<int64_t>(wide, recv, IBCOLL_SUM); },
               [&] { return g.ireduce_scatter_block<int64_t>(wide, recv, IBCOLL_SUM); },
               [&] { return g.reduce_scatter_block_init<int64_t>(wide, recv, IBCOLL_SUM); },
               [&](const char* form) {
                 is_sum(recv, size, me * static_cast<int64_t>(kCount),
                        fmt::format("{} reduce_scatter_block", form));
                 std::fill(recv.begin(), recv.end(), -1);
               });
  // Rank r gets 10 r elements, rank 0 none.
  for (int r = 0; r < size; ++r) counts[static_cast<size_t>(r)] = 10 * r;
  const int64_t first = 5 * me * (me - 1);
  std::vector<int64_t> all(static_cast<size_t>(5 * size * (size - 1))),
      part(static_cast<size_t>(10 * me));
  fill(all);
  in_all_forms([&] { g.reduce_scatter<int64_t>(all, part, counts, IBCOLL_SUM); },
               [&] { return g.ireduce_scatter<int64_t>(all, part, counts, IBCOLL_SUM); },
               [&] {
                 // Counts are copied.
                 const std::vector<int64_t> gone = counts;
                 return g.reduce_scatter_init<int64_t>(all, part, gone, IBCOLL_SUM);
               },
               [&](const char* form) {
                 is_sum(part, size, first, fmt::format("{} reduce_scatter", form));
                 std::fill(part.begin(), part.end(), -1);
               });
  g.reduce_scatter_in_place<int64_t>(all, counts, IBCOLL_SUM);
  all.resize(static_cast<size_t>(10 * me));
  is_sum(all, size, first, "reduce_scatter in place");
  fill(wide);
  g.reduce_scatter_block_in_place<int64_t>(wide, IBCOLL_SUM);
  wide.resize(kCount);
  is_sum(wide, size, me * static_cast<int64_t>(kCount), "reduce_scatter_block in place");
}

TEST(ReductionCalls, TheCxxInterfaceHasThemInAllForms) {
  for (const char* layout : {"1", "4", "2,2", "3,1,2"}) {
    const int ranks = layout[0] == '1' ? 1 : layout[0] == '3' ? 6 : 4;
    EXPECT_EQ(launched(layout, ranks,
                       [&](const ApiRank& rank) {
                         try {
                           const context c(rank.context);
                           use_cxx(c.world(), rank);
                           // On groups and on sets, of all ranks but the first.
                           if (c.rank() == 0 || ranks == 1) return;
                           std::vector<int> members(static_cast<size_t>(ranks - 1));
                           std::iota(members.begin(), members.end(), 1);
                           use_cxx(subgroup(rank.context, members), rank);
                           rank_set set;
                           for (const int member : members) set.add(member);
                           use_cxx(c.on_set(set, 7), rank);
                         } catch (const std::exception& e) {
                           rank.complain(e.what());
                         }
                       }),
              "")
        << layout;
  }
}

TEST(ReductionCalls, TheCInterfaceHasThem) {
  for (const char* layout : {"3", "2,1"}) {
    EXPECT_EQ(
        launched(
            layout, 3,
            [](const ApiRank& rank) {
              ibcoll_group* world = ibcoll_world(rank.context);
              const int me = ibcoll_rank(rank.context);
              const double mine[3] = {1.0 + me, 2.0, 3.0};
              double sums[3] = {};
              const int64_t counts[3] = {0, 2, 1};
              const auto good = [&](ibcoll_status status, const char* what) {
                if (status != IBCOLL_OK)
                  rank.complain(fmt::format("{}: {}", what, ibcoll_last_error()));
              };
              const auto is = [&](double value, const char* what) {
                if (sums[0] != value) rank.complain(fmt::format("{} is {}", what, sums[0]));
                sums[0] = -1;
              };
              good(ibcoll_allreduce(world, mine, sums, 3, IBCOLL_DOUBLE, IBCOLL_SUM, nullptr),
                   "allreduce");
              is(6, "allreduce");
              good(ibcoll_reduce_scatter_block(world, mine, sums, 1, IBCOLL_DOUBLE, IBCOLL_MAX,
                                               nullptr),
                   "reduce_scatter_block");
              is(me == 0 ? 3 : me + 1, "reduce_scatter_block");
              good(ibcoll_reduce_scatter(world, mine, sums, counts, IBCOLL_DOUBLE, IBCOLL_SUM,
                                         nullptr),
                   "reduce_scatter");
              is(me == 0 ? -1 : me == 1 ? 6 : 9, "reduce_scatter");
              good(ibcoll_scan(world, mine, sums, 3, IBCOLL_DOUBLE, IBCOLL_SUM, nullptr), "scan");
              is(me == 0 ? 1 : me == 1 ? 3 : 6, "scan");
              good(ibcoll_exscan(world, mine, me == 0 ? nullptr : sums, 3, IBCOLL_DOUBLE,
                                 IBCOLL_SUM, nullptr),
                   "exscan");
              is(me == 0 ? -1 : me == 1 ? 1 : 3, "exscan");
              // No elements: nothing is read or written.
              good(ibcoll_allreduce(world, nullptr, nullptr, 0, IBCOLL_DOUBLE, IBCOLL_SUM, nullptr),
                   "allreduce of nothing");
            }),
        "");
  }
}

TEST(ReductionCalls, ReplaceAndNoOpGoByTheOrderOfRanksAndIndicesSayWhere) {
  EXPECT_EQ(
      testing::on_four_ranks([](const context& rank) {
        const int me = rank.rank();
        const std::vector<int> mine = {10 + me, 20 + me};
        for (int root = 0; root < 4; ++root) {
          std::vector<int> all(2);
          rank.world().reduce<int>(mine, all, IBCOLL_REPLACE, root);
          testing::expect(me != root || all == std::vector<int>{13, 23}, "of the highest rank");
          rank.world().reduce<int>(mine, all, IBCOLL_NO_OP, root);
          testing::expect(me != root || all == std::vector<int>{10, 20}, "of the lowest rank");
          const indexed<double> here{me % 2 == 0 ? 1.5 : 0.5, me};
          indexed<double> least{};
          rank.world().reduce<indexed<double>>(std::span(&here, 1), std::span(&least, 1),
                                               IBCOLL_MINLOC, root);
          testing::expect(me != root || (least.value == 0.5 && least.index == 1), "the least");
        }
      }),
      "");
}

}  // namespace
}  // namespace ibcoll
