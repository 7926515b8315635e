// Blocking calls that a program makes again and again: they stay prepared, and must mean what their
// arguments and buffers say each time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/api_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::launched;

/// Where the calls of these tests send from and receive to.
struct Buffers {
  std::array<int64_t, 64> send = {}, recv = {};
};

int64_t value_of(int rank, int round, size_t element) {
  return 1000 * (rank + 1) + 10 * round + static_cast<int64_t>(element % 7);
}

void fill(Buffers& buffers, int rank, int round) {
  for (size_t i = 0; i < buffers.send.size(); ++i) buffers.send[i] = value_of(rank, round, i);
  buffers.recv.fill(-1);
}

TEST(RepeatedCalls, TakeWhatTheBuffersHoldEachTime) {
  for (const char* layout : {"2", "3", "2,1"}) {
    EXPECT_EQ(launched(layout, layout[0] == '2' && layout[1] == '\0' ? 2 : 3,
                       [](const ApiRank& rank) {
                         ibcoll_group* const world = ibcoll_world(rank.context);
                         const int me = ibcoll_rank(rank.context),
                                   ranks = ibcoll_size(rank.context);
                         Buffers buffers;
                         for (int round = 0; round < 30; ++round) {
                           fill(buffers, me, round);
                           if (!rank.good(
                                   ibcoll_allreduce(world, buffers.send.data(), buffers.recv.data(),
                                                    3, IBCOLL_INT64, IBCOLL_SUM, nullptr),
                                   "allreduce"))
                             return;
                           for (size_t i = 0; i < 3; ++i) {
                             int64_t sum = 0;
                             for (int other = 0; other < ranks; ++other)
                               sum += value_of(other, round, i);
                             if (buffers.recv[i] != sum) rank.complain("a wrong sum");
                           }
                           if (buffers.recv[3] != -1) rank.complain("more than was asked for");
                         }
                       }),
              "")
        << layout;
  }
}

// More of them than stay prepared, so that they replace each other, with calls of other kinds amid.
TEST(RepeatedCalls, OfManyKindsAreToldApart) {
  EXPECT_EQ(launched("3", 3,
                     [](const ApiRank& rank) {
                       ibcoll_group* const world = ibcoll_world(rank.context);
                       const int me = ibcoll_rank(rank.context);
                       Buffers buffers, others;
                       for (int round = 0; round < 40; ++round) {
                         for (int kind = 0; kind < 7; ++kind) {
                           if ((round * 7 + kind) % 11 == 0) continue;  // the same on all ranks
                           Buffers& used = kind == 3 ? others : buffers;
                           fill(used, me, round + kind);
                           const int root = kind % 3;
                           const size_t count = kind == 2 ? 5 : 1;
                           int64_t* const send = used.send.data();
                           int64_t* const recv = used.recv.data();
                           ibcoll_status status = IBCOLL_OK;
                           switch (kind) {
                             case 0:
                             case 1:
                               status = ibcoll_bcast(world, send, 8, root, nullptr);
                               break;
                             case 2:
                             case 3:
                               status = ibcoll_allgather(world, send, recv, 8 * count, nullptr);
                               break;
                             case 4:
                               status = ibcoll_reduce(world, send, recv, 1, IBCOLL_INT64,
                                                      IBCOLL_MAX, root, nullptr);
                               break;
                             case 5: {
                               ibcoll_options options = IBCOLL_OPTIONS_INIT;
                               options.algorithm = round % 2 == 0 ? "ring" : "linear";
                               status = ibcoll_allgather(world, send, recv, 8, &options);
                               break;
                             }
                             default:
                               status = ibcoll_alltoall(world, send, recv, 16, nullptr);
                           }
                           if (!rank.good(status, "a call")) return;
                           const auto expected = [&](int from, size_t element) {
                             return value_of(from, round + kind, element);
                           };
                           bool right = true;
                           if (kind < 2) {
                             right = send[0] == expected(root, 0);
                           } else if (kind == 4) {
                             right = me != root || recv[0] == expected(2, 0);
                           } else if (kind == 6) {
                             for (int from = 0; from < 3; ++from)
                               right &= recv[2 * from + 1] ==
                                        expected(from, 2 * static_cast<size_t>(me) + 1);
                           } else {
                             for (int from = 0; from < 3; ++from) {
                               for (size_t i = 0; i < count; ++i)
                                 right &= recv[static_cast<size_t>(from) * count + i] ==
                                          expected(from, i);
                             }
                           }
                           if (!right) rank.complain("wrong data of kind " + std::to_string(kind));
                         }
                       }
                     }),
            "");
}

TEST(RepeatedCalls, MeanWhatTheirOptionsSayEachTime) {
  EXPECT_EQ(launched("2", 2,
                     [](const ApiRank& rank) {
                       ibcoll_group* const world = ibcoll_world(rank.context);
                       const int64_t mine = 1;
                       int64_t all[2] = {};
                       ibcoll_options options = IBCOLL_OPTIONS_INIT;
                       const auto call = [&] {
                         return ibcoll_allgather(world, &mine, all, sizeof mine, &options);
                       };
                       const auto refused = [&](const char* what) {
                         if (call() != IBCOLL_ERR_INVALID)
                           rank.complain(std::string("taken: ") + what);
                       };
                       std::array<char, 64> name = {"ring"};
                       for (int round = 0; round < 3; ++round) {
                         options.algorithm = nullptr;
                         rank.good(call(), "without a name");
                         options.algorithm = name.data();
                         for (int i = 0; i < 3; ++i) rank.good(call(), "by name");
                         name = {"rink"};
                         refused("another name in the same place");
                         name.fill('x');
                         name.back() = '\0';
                         refused("a long name");
                         name = {"ring"};
                         for (int i = 0; i < 2; ++i) rank.good(call(), "by the same name again");
                         options.pacing = "slow";
                         refused("a pacing that there is not");
                         options.pacing = "free";
                         for (int i = 0; i < 2; ++i) rank.good(call(), "with a pacing");
                         options.pacing = nullptr;
                         options.pieces = -1;
                         refused("fewer than no pieces");
                         options.pieces = 0;
                         options.recv_bytes = 8;
                         refused("a buffer that is too small");
                         options.recv_bytes = 0;
                       }
                     }),
            "");
}

TEST(RepeatedCalls, TakeTheAlgorithmsThatAreWorthTrying) {
  EXPECT_EQ(launched("3", 3,
                     [](const ApiRank& rank) {
                       ibcoll_group* const world = ibcoll_world(rank.context);
                       int tried = 0;
                       for (const size_t elements : {1U, 100U, 1000U, 30000U}) {
                         for (int i = -1; i < 10; ++i) {
                           const char* const name = ibcoll_algorithm_to_try(
                               world, IBCOLL_ALLREDUCE, elements * sizeof(int64_t), std::max(i, 0));
                           if (name == nullptr && i >= 0) break;
                           ibcoll_options options = IBCOLL_OPTIONS_INIT;
                           if (i >= 0) options.algorithm = name;
                           std::vector<int64_t> mine(elements, 1 + ibcoll_rank(rank.context)),
                               sum(elements);
                           for (int again = 0; again < 3; ++again) {
                             sum.assign(elements, 0);
                             rank.good(ibcoll_allreduce(world, mine.data(), sum.data(), elements,
                                                        IBCOLL_INT64, IBCOLL_SUM, &options),
                                       "allreduce");
                             if (sum != std::vector<int64_t>(elements, 6))
                               rank.complain("a wrong sum");
                           }
                           ++tried;
                         }
                       }
                       if (tried < 8) rank.complain("hardly any was worth trying");
                       const auto none = [&](const ibcoll_group* group, int collective,
                                             size_t bytes, int index) {
                         if (ibcoll_algorithm_to_try(const_cast<ibcoll_group*>(group),
                                                     static_cast<ibcoll_collective>(collective),
                                                     bytes, index) != nullptr)
                           rank.complain("a name for what there is not");
                       };
                       none(nullptr, IBCOLL_ALLREDUCE, 8, 0);
                       none(world, IBCOLL_ALLREDUCE, 8, -1);
                       none(world, IBCOLL_ALLREDUCE, 8, 1000);
                       none(world, 1000, 8, 0);
                       none(world, IBCOLL_ALLTOALLV, 8, 0);
                       none(world, IBCOLL_NEIGHBOR_ALLTOALL, 8, 0);
                       none(world, IBCOLL_ALLTOALL, SIZE_MAX, 0);
                     }),
            "");
}

TEST(RepeatedCalls, ThatWereRefusedAreRefusedAgain) {
  EXPECT_EQ(launched("2", 2,
                     [](const ApiRank& rank) {
                       ibcoll_group* const world = ibcoll_world(rank.context);
                       int64_t value = 1;
                       for (int i = 0; i < 3; ++i) {
                         if (ibcoll_bcast(world, &value, 8, 2, nullptr) != IBCOLL_ERR_INVALID)
                           rank.complain("a root that the group lacks was taken");
                         if (ibcoll_bcast(world, nullptr, 8, 0, nullptr) != IBCOLL_ERR_INVALID)
                           rank.complain("a null buffer was taken");
                         rank.good(ibcoll_bcast(world, &value, 8, 0, nullptr), "bcast");
                       }
                     }),
            "");
}

}  // namespace
}  // namespace ibcoll
