// Calls inside a server that are carried out at once once they have been made before: with what
// stops them on the way they end as all calls do.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/api_job.h"
#include "tests/core/short_call_data.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::be_late;
using testing::kRepeated;
using testing::kRoot;
using testing::launched;
using testing::number_at;
using testing::numbers_of;
using testing::SharedFlags;

/// What a rank sends, and where it receives.
struct Numbers {
  Numbers(int rank, int ranks, int round, size_t elements)
      : send(static_cast<size_t>(ranks) * elements), recv(send.size() + 1, -1) {
    for (size_t i = 0; i < send.size(); ++i) send[i] = number_at(rank, round, i);
  }
  std::vector<int64_t> send, recv;
};

/// A collective of blocks of `elements` numbers each, and what a rank is to have afterwards.
struct Tried {
  const char* name;
  std::function<ibcoll_status(ibcoll_group*, Numbers&, size_t elements)> call;
  std::function<std::vector<int64_t>(int rank, int ranks, int round, size_t elements)> expected;
};

std::vector<int64_t> sums_of(int ranks, int round, size_t elements) {
  std::vector<int64_t> all(elements);
  for (int rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < elements; ++i) all[i] += number_at(rank, round, i);
  return all;
}

std::vector<int64_t> joined(int ranks, int round, size_t elements,
                            const std::function<size_t(int)>& first) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int64_t> block = numbers_of(rank, round, first(rank), elements);
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

const std::vector<Tried>& tried() {
  static const std::vector<Tried> all = {
      {"alltoall",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_alltoall(group, b.send.data(), b.recv.data(), 8 * n, nullptr);
       },
       [](int rank, int ranks, int round, size_t n) {
         return joined(ranks, round, n, [=](int) { return static_cast<size_t>(rank) * n; });
       }},
      {"allgather",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_allgather(group, b.send.data(), b.recv.data(), 8 * n, nullptr);
       },
       [](int, int ranks, int round, size_t n) {
         return joined(ranks, round, n, [](int) { return size_t{0}; });
       }},
      {"gather",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_gather(group, b.send.data(), b.recv.data(), 8 * n, kRoot, nullptr);
       },
       [](int rank, int ranks, int round, size_t n) {
         if (rank != kRoot) return std::vector<int64_t>();
         return joined(ranks, round, n, [](int) { return size_t{0}; });
       }},
      {"scatter",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_scatter(group, b.send.data(), b.recv.data(), 8 * n, kRoot, nullptr);
       },
       [](int rank, int, int round, size_t n) {
         return numbers_of(kRoot, round, static_cast<size_t>(rank) * n, n);
       }},
      {"allreduce",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_allreduce(group, b.send.data(), b.recv.data(), n, IBCOLL_INT64, IBCOLL_SUM,
                                 nullptr);
       },
       [](int, int ranks, int round, size_t n) { return sums_of(ranks, round, n); }},
      {"reduce",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         return ibcoll_reduce(group, b.send.data(), b.recv.data(), n, IBCOLL_INT64, IBCOLL_SUM,
                              kRoot, nullptr);
       },
       [](int rank, int ranks, int round, size_t n) {
         return rank == kRoot ? sums_of(ranks, round, n) : std::vector<int64_t>();
       }},
      {"bcast",
       [](ibcoll_group* group, Numbers& b, size_t n) {
         if (ibcoll_group_rank(group) == kRoot) std::copy_n(b.send.begin(), n, b.recv.begin());
         return ibcoll_bcast(group, b.recv.data(), 8 * n, kRoot, nullptr);
       },
       [](int, int, int round, size_t n) { return numbers_of(kRoot, round, 0, n); }},
  };
  return all;
}

void repeat(const ApiRank& rank, const Tried& one, size_t elements) {
  ibcoll_group* const world = ibcoll_world(rank.context);
  const int me = ibcoll_rank(rank.context), ranks = ibcoll_size(rank.context);
  // The same buffers again and again, and others now and then.
  Numbers first(me, ranks, 0, elements), second(me, ranks, 0, elements);
  for (int round = 0; round < kRepeated; ++round) {
    Numbers& blocks = round % 5 == 4 ? second : first;
    const Numbers fresh(me, ranks, round, elements);
    std::copy(fresh.send.begin(), fresh.send.end(), blocks.send.begin());
    std::copy(fresh.recv.begin(), fresh.recv.end(), blocks.recv.begin());
    be_late(me, ranks, round);
    if (!rank.good(one.call(world, blocks, elements), one.name)) return;
    std::vector<int64_t> expected = one.expected(me, ranks, round, elements);
    expected.resize(blocks.recv.size(), -1);
    if (blocks.recv != expected)
      rank.complain(std::string(one.name) + " of " + std::to_string(8 * elements) +
                    " bytes, round " + std::to_string(round) + ": wrong data");
  }
}

TEST(ShortCalls, AreRightWhoeverIsLate) {
  for (const int ranks : {2, 3, 5}) {
    // Of nothing, in a line, behind one, the longest that are short, and longer.
    for (const size_t elements : {0, 1, 5, 6, 128, 129}) {
      EXPECT_EQ(launched(nullptr, ranks,
                         [elements](const ApiRank& rank) {
                           for (const Tried& one : tried()) repeat(rank, one, elements);
                         }),
                "")
          << ranks << " ranks, " << 8 * elements << " bytes";
    }
  }
}

TEST(ShortCalls, NobodyLeavesABarrierBeforeAllHaveCome) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(
      launched(nullptr, 3,
               [&flags](const ApiRank& rank) {
                 const int me = ibcoll_rank(rank.context);
                 for (int round = 0; round < 3 * kRepeated; ++round) {
                   be_late(me, 3, round);
                   flags.raise(static_cast<size_t>(me));
                   if (!rank.good(ibcoll_barrier(ibcoll_world(rank.context), nullptr), "barrier"))
                     return;
                   for (size_t other = 0; other < 3; ++other)
                     if (flags.raised(other) <= round) rank.complain("left too early");
                 }
               }),
      "");
}

TEST(ShortCalls, PersistentOnesStartAgainAndAgain) {
  EXPECT_EQ(launched(nullptr, 3,
                     [](const ApiRank& rank) {
                       const int me = ibcoll_rank(rank.context);
                       int64_t mine = 0, sum = 0;
                       ibcoll_call call =
                           ibcoll_call_allreduce(&mine, &sum, 1, IBCOLL_INT64, IBCOLL_SUM, nullptr);
                       call.flags = IBCOLL_PERSISTENT;
                       ibcoll_request* request = nullptr;
                       rank.good(ibcoll_call_init(ibcoll_world(rank.context), &call, &request),
                                 "init");
                       for (int round = 0; round < kRepeated; ++round) {
                         mine = number_at(me, round, 0);
                         be_late(me, 3, round);
                         if (!rank.good(ibcoll_start(request), "start") ||
                             !rank.good(ibcoll_wait(request), "wait"))
                           return;
                         if (sum != sums_of(3, round, 1)[0]) rank.complain("a wrong sum");
                       }
                       rank.good(ibcoll_call_free(request), "free");
                     }),
            "");
}

TEST(ShortCalls, TellWhereRanksDisagree) {
  int ended = 0;
  EXPECT_EQ(launched(
                nullptr, 2,
                [](const ApiRank& rank) {
                  ibcoll_group* const world = ibcoll_world(rank.context);
                  const int me = ibcoll_rank(rank.context);
                  int64_t data = 7;
                  for (int round = 0; round < kRepeated; ++round) {
                    for (int root = 0; root < 2; ++root)
                      rank.good(ibcoll_bcast(world, &data, 8, root, nullptr), "bcast");
                  }
                  ibcoll_status status = ibcoll_bcast(world, &data, 8, me, nullptr);
                  // Each has been its own root. What the other one has sent is found in later
                  // calls.
                  int64_t sum = 0;
                  for (int i = 0; i < 4 && status == IBCOLL_OK; ++i)
                    status =
                        ibcoll_allreduce(world, &data, &sum, 1, IBCOLL_INT64, IBCOLL_SUM, nullptr);
                  const std::string line = ibcoll_last_error();
                  if (status != IBCOLL_ERR_MISMATCH ||
                      line.find("rank 0 passes root 0, rank 1 1") == std::string::npos)
                    rank.complain(line);
                },
                &ended),
            "");
  EXPECT_NE(ended, 0);
}

TEST(ShortCalls, HaveDeadlines) {
  SharedFlags& flags = SharedFlags::create();
  EXPECT_EQ(launched(nullptr, 2,
                     [&flags](const ApiRank& rank) {
                       const bool late = ibcoll_rank(rank.context) == 1;
                       ibcoll_group* const group = testing::group_of(rank, {0, 1}, 3);
                       int64_t mine = 1, sum = 0;
                       ibcoll_options options = IBCOLL_OPTIONS_INIT;
                       const auto add = [&] {
                         return ibcoll_allreduce(group, &mine, &sum, 1, IBCOLL_INT64, IBCOLL_SUM,
                                                 &options);
                       };
                       // Long enough for calls to which nobody is late.
                       if (!late) options.deadline_us = 1'000'000;
                       for (int round = 0; round < kRepeated; ++round)
                         rank.good(add(), "allreduce");
                       // What has come to the late one by then may be enough for its first call.
                       ibcoll_status status = IBCOLL_OK;
                       if (late) flags.await(0, 1);
                       for (int round = 0; round < 2 && status == IBCOLL_OK; ++round)
                         status = add();
                       if (!late) flags.raise(0);
                       if (status != IBCOLL_ERR_DEADLINE)
                         rank.complain("no deadline: " + std::to_string(status));
                       rank.good(ibcoll_group_free(group), "free");
                     }),
            "");
}

}  // namespace
}  // namespace ibcoll
