// The C and C++ interface of sets: bitmaps, calls on them, handles, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/api_job.h"
#include "tests/cxx_job.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::expect;
using ::testing::HasSubstr;
using testing::launched;
using testing::on_four_ranks;
using testing::ThreadsOf;

TEST(Sets, AreBitmaps) {
  EXPECT_EQ(ibcoll_set_words(-1), 0u);
  EXPECT_EQ(ibcoll_set_words(0), 0u);
  EXPECT_EQ(ibcoll_set_words(64), 1u);
  EXPECT_EQ(ibcoll_set_words(65), 2u);
  std::array<uint64_t, 3> set{1, 2, 3};
  ibcoll_set_clear(set.data(), set.size());
  EXPECT_EQ(ibcoll_set_size(set.data(), set.size()), 0);
  EXPECT_EQ(ibcoll_set_rank(set.data(), set.size(), 0), -1);
  const std::array<int, 6> members{0, 5, 63, 64, 128, 191};
  for (const int rank : members) ibcoll_set_add(set.data(), rank);
  ibcoll_set_add(set.data(), 7);
  ibcoll_set_remove(set.data(), 7);
  EXPECT_EQ(ibcoll_set_size(set.data(), set.size()), 6);
  EXPECT_EQ(ibcoll_set_size(set.data(), 1), 3);
  for (int rank = -70; rank < 300; ++rank) {
    const auto place = std::find(members.begin(), members.end(), rank);
    const int id = place == members.end() ? -1 : static_cast<int>(place - members.begin());
    EXPECT_EQ(ibcoll_set_has(set.data(), set.size(), rank), id >= 0 ? 1 : 0) << rank;
    EXPECT_EQ(ibcoll_set_id(set.data(), set.size(), rank), id) << rank;
  }
  for (int id = -2; id < 9; ++id) {
    EXPECT_EQ(ibcoll_set_rank(set.data(), set.size(), id), id < 0 || id > 5 ? -1 : members[id]);
  }
}

TEST(Sets, GrowInCxx) {
  rank_set set{3, 200};
  EXPECT_EQ(set.words().size(), 4u);
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.id_of(200), 1);
  EXPECT_EQ(set.rank_of(1), 200);
  EXPECT_EQ(set.rank_of(2), -1);
  set.remove(3);
  set.remove(1000);
  EXPECT_FALSE(set.has(3));
  EXPECT_THROW(set.add(-1), std::invalid_argument);
  set.clear();
  EXPECT_EQ(set.size(), 0);
}

/// Every collective on random sets, in C++ and, for those that C++ makes as requests, in both
/// forms.
TEST(SetCallsInCxx, AreTheGroupsCalls) {
  EXPECT_EQ(
      on_four_ranks([](const context& rank) {
        std::mt19937 random(5);
        for (int round = 0; round < 60; ++round) {
          const uint64_t word = 1 + random() % 15;
          if ((word >> rank.rank() & 1) == 0) continue;
          rank_set set;
          for (int r = 0; r < 4; ++r) {
            if ((word >> r & 1) != 0) set.add(r);
          }
          const set_group on = rank.on_set(set, 9);
          const int n = set.size(), me = set.id_of(rank.rank()), root = round % n;
          expect(on.size() == n && on.rank() == me, "another place");
          std::vector<int> own(2, 10 * me + round), all(2 * n), blocks(n), got(n);
          std::iota(blocks.begin(), blocks.end(), 100 * me);
          on.alltoall<int>(blocks, got);
          for (int i = 0; i < n; ++i) expect(got[i] == 100 * i + me, "alltoall");
          on.alltoall_in_place<int>(got);
          for (int i = 0; i < n; ++i) expect(got[i] == 100 * me + i, "alltoall in place");
          on.iallgather<int>(own, all).wait();
          for (int i = 0; i < 2 * n; ++i) expect(all[i] == 10 * (i / 2) + round, "allgather");
          std::vector<int> sum(2);
          on.reduce<int>(own, sum, IBCOLL_SUM, root);
          expect(me != root || sum[1] == 5 * n * (n - 1) + n * round, "reduce");
          on.gather<int>(own, all, root);
          on.bcast<int>(all, root);
          expect(all.back() == 10 * (n - 1) + round, "gather, bcast");
          int one = -1;
          on.scatter<int>(std::span<const int>(all).first(n), std::span(&one, 1), root);
          expect(one == all[me], "scatter");
          on.barrier();
          // Blocks that differ: member i has i + 1 numbers for everybody.
          std::vector<int64_t> counts(n), places(n), mine(n, 4 * (me + 1)), from(n, IBCOLL_UNKNOWN);
          for (int i = 0; i < n; ++i) counts[i] = 4 * (i + 1), places[i] = 4 * (i * (i + 1) / 2);
          on.exchange_counts(mine, from);
          expect(from == counts, "exchanged counts");
          const layout packed{counts, places};
          std::vector<int> some(me + 1, me), joined(n * (n + 1) / 2);
          const auto right = [&] {
            return std::all_of(joined.begin(), joined.end(), [&, k = 0, left = 1](int x) mutable {
              const bool good = x == k;
              if (--left == 0) left = ++k + 1;
              return good;
            });
          };
          on.allgatherv<int>(some, joined, packed);
          expect(right(), "allgatherv");
          on.alltoallv<int>(std::vector<int>(n * (me + 1), me), {mine, std::vector<int64_t>(n, 0)},
                            std::span(joined), packed);
          expect(right(), "alltoallv");
          std::fill(joined.begin(), joined.end(), -1);
          on.gatherv<int>(some, joined, packed, root);
          expect(me != root || right(), "gatherv");
          on.bcast<int>(joined, root);
          on.scatterv<int>(joined, packed, some, root);
          expect(right() && some.back() == me, "scatterv");
        }
      }),
      "");
}

TEST(SetCalls, WithAnotherTagMayGoInAnotherOrder) {
  EXPECT_EQ(
      on_four_ranks([](const context& rank) {
        constexpr int kTags = 6;
        const uint64_t everybody = 15;
        for (int round = 0; round < 50; ++round) {
          std::array<int, kTags> numbers{};
          std::array<ibcoll_request*, kTags> requests{};
          for (int i = 0; i < kTags; ++i) {
            const int tag = (i * (rank.rank() % 2 == 0 ? 1 : 5) + rank.rank()) % kTags;
            numbers[tag] = rank.rank() == 2 ? 1000 * round + tag : -1;
            const ibcoll_call call = ibcoll_call_bcast(&numbers[tag], sizeof(int), 2, nullptr);
            detail::check(ibcoll_set_call_init(rank.handle(), &everybody, 1,
                                               static_cast<uint64_t>(tag), &call, &requests[tag]));
          }
          for (int i = 0; i < kTags; ++i)
            detail::check(ibcoll_start(requests[(i + 3 * rank.rank()) % kTags]));
          for (int i = 0; i < kTags; ++i)
            detail::check(ibcoll_wait(requests[(5 * i + rank.rank()) % kTags]));
          for (int tag = 0; tag < kTags; ++tag) {
            expect(numbers[tag] == 1000 * round + tag, "another tag's number");
            detail::check(ibcoll_call_free(requests[tag]));
          }
        }
      }),
      "");
}

/// Some members free each request before they make the next call, others keep all of them.
TEST(SetCalls, AreMatchedInOrderWhateverHasBeenFreed) {
  EXPECT_EQ(on_four_ranks([](const context& rank) {
              const uint64_t set = 0b1011;
              if (rank.rank() == 2) return;
              std::vector<ibcoll_request*> kept;
              for (int round = 0; round < 300; ++round) {
                int number = rank.rank() == 3 ? round : -1;
                const ibcoll_call call = ibcoll_call_bcast(&number, sizeof number, 2, nullptr);
                if (rank.rank() == 0 && round % 2 == 0) {
                  detail::check(ibcoll_set_call(rank.handle(), &set, 1, 77, &call));
                } else {
                  ibcoll_request* request = nullptr;
                  detail::check(ibcoll_set_call_init(rank.handle(), &set, 1, 77, &call, &request));
                  detail::check(ibcoll_start(request));
                  detail::check(ibcoll_wait(request));
                  kept.push_back(request);
                }
                expect(number == round, "the number of another call");
                if (rank.rank() != 1) {
                  for (ibcoll_request* request : kept) detail::check(ibcoll_call_free(request));
                  kept.clear();
                }
              }
              for (ibcoll_request* request : kept) detail::check(ibcoll_call_free(request));
            }),
            "");
}

TEST(SetCalls, ThatArePersistentAreMatchedAsTheyAreMade) {
  EXPECT_EQ(on_four_ranks([](const context& rank) {
              const set_group on = rank.on_set({0, 1, 2, 3}, 4);
              std::array<int, 4> send{}, first{}, second{};
              request one = on.alltoall_init<int>(send, first);
              request two = on.alltoall_init<int>(send, second);
              for (int round = 0; round < 20; ++round) {
                send.fill(round + 100 * rank.rank());
                // Each is a call of its own: they are started in another order here than there.
                (rank.rank() % 2 == 0 ? one : two).start();
                (rank.rank() % 2 == 0 ? two : one).start();
                one.wait();
                two.wait();
                expect(first == second && first[3] == round + 300, "wrong data");
              }
            }),
            "");
}

TEST(SetCalls, OfSeveralThreadsMayWaitAtATime) {
  EXPECT_EQ(launched("2,1", 3,
                     [](const ApiRank& rank) {
                       if (!rank.good(ibcoll_set_thread_level(rank.context, IBCOLL_THREAD_MULTIPLE),
                                      "thread level"))
                         return;
                       ThreadsOf threads(rank);
                       for (uint64_t tag = 0; tag < 4; ++tag) {
                         threads.add([&rank, tag]() -> std::string {
                           const uint64_t all = 7;
                           for (int i = 0; i < 200; ++i) {
                             int number = ibcoll_rank(rank.context) == 1 ? i : -1;
                             const ibcoll_call call =
                                 ibcoll_call_bcast(&number, sizeof number, 1, nullptr);
                             if (ibcoll_set_call(rank.context, &all, 1, tag, &call) != IBCOLL_OK)
                               return ibcoll_last_error();
                             if (number != i) return "wrong data";
                           }
                           return "";
                         });
                       }
                     }),
            "");
}

/// One that is cancelled is over on all its members; those before and after it are not.
TEST(SetCalls, EndOneByOne) {
  EXPECT_EQ(on_four_ranks([](const context& rank) {
              const uint64_t all = 15;
              std::array<std::array<int, 4>, 3> send{}, recv{};
              std::array<ibcoll_request*, 3> requests{};
              ibcoll_status ended = IBCOLL_OK;
              for (int i = 0; i < 3; ++i) {
                send[i].fill(10 * i + rank.rank());
                const ibcoll_call call =
                    ibcoll_call_alltoall(send[i].data(), recv[i].data(), sizeof(int), nullptr);
                const ibcoll_status made =
                    ibcoll_set_call_init(rank.handle(), &all, 1, 3, &call, &requests[i]);
                if (i == 1) ended = made;  // rank 0 may have cancelled it already
                if (i != 1) detail::check(made);
              }
              // Rank 3 does not start it, so that it can't finish anywhere.
              if (rank.rank() != 3 && ended == IBCOLL_OK) ended = ibcoll_start(requests[1]);
              if (rank.rank() == 0) detail::check(ibcoll_cancel(requests[1]));
              for (const int i : {0, 2}) {
                detail::check(ibcoll_start(requests[i]));
                detail::check(ibcoll_wait(requests[i]));
                for (int from = 0; from < 4; ++from) expect(recv[i][from] == 10 * i + from, "data");
                detail::check(ibcoll_call_free(requests[i]));
              }
              if (rank.rank() != 3 && ended == IBCOLL_OK) {
                ended = ibcoll_wait(requests[1]);
                const std::string line = ibcoll_last_error();
                expect(line.find("rank 0 has cancelled alltoall") != std::string::npos, line);
                expect(ibcoll_last_error_scope() == IBCOLL_SCOPE_GROUP, "another scope");
              }
              expect(rank.rank() == 3 || ended == IBCOLL_ERR_CANCELLED, "not cancelled");
              detail::check(ibcoll_call_free(requests[1]));
            }),
            "");
}

TEST(SetCalls, NameTheMemberThatDied) {
  int status = 0;
  EXPECT_EQ(launched(
                "4", 4,
                [](const ApiRank& rank) {
                  if (ibcoll_rank(rank.context) == 1) raise(SIGKILL);
                  const uint64_t all = 15, others = 13;
                  const ibcoll_call call = ibcoll_call_barrier(nullptr);
                  for (int i = 0; i < 3; ++i) {
                    if (ibcoll_set_call(rank.context, &all, 1, 1, &call) != IBCOLL_ERR_PEER_FAILED)
                      rank.complain("not refused");
                    const std::string line = ibcoll_last_error();
                    if (line.find("rank 1") == std::string::npos)
                      rank.complain("another line: " + line);
                  }
                  rank.good(ibcoll_set_call(rank.context, &others, 1, 1, &call),
                            "those who are left");
                },
                &status),
            "");
  EXPECT_NE(status, 0);
}

/// What is refused on one member alone is not counted there.
TEST(SetCalls, ThatAreRefusedDoNotCount) {
  EXPECT_EQ(on_four_ranks([](const context& rank) {
              const uint64_t all = 15;
              for (int i = 0; i < 20; ++i) {
                int number = rank.rank() == 0 ? i : -1;
                ibcoll_call call = ibcoll_call_bcast(&number, sizeof number, 7, nullptr);
                if (i % 4 == rank.rank()) {
                  expect(ibcoll_set_call(rank.handle(), &all, 1, 1, &call) == IBCOLL_ERR_INVALID,
                         "there is a root 7");
                  ibcoll_request* request = nullptr;
                  call.struct_size = 1;
                  expect(ibcoll_set_call_init(rank.handle(), &all, 1, 1, &call, &request) ==
                             IBCOLL_ERR_INVALID,
                         "a struct of one byte");
                }
                call = ibcoll_call_bcast(&number, sizeof number, 0, nullptr);
                detail::check(ibcoll_set_call(rank.handle(), &all, 1, 1, &call));
                expect(number == i, "the number of another call");
              }
            }),
            "");
}

TEST(SetCalls, AreRefusedByTheRankThatCanNotMakeThem) {
  const job alone;
  ibcoll_context* const context = alone.context().handle();
  const uint64_t me = 1;
  ibcoll_call call = ibcoll_call_barrier(nullptr);
  ibcoll_request* request = nullptr;
  ibcoll_group* group = nullptr;
  const auto refusal = [](ibcoll_status status) {
    return status == IBCOLL_ERR_INVALID ? ibcoll_last_error() : "not refused";
  };
  const auto called_on = [&](const std::vector<uint64_t>& words) {
    const std::string line =
        refusal(ibcoll_set_call(context, words.data(), words.size(), 0, &call));
    EXPECT_EQ(line, refusal(ibcoll_set_call_init(context, words.data(), words.size(), 0, &call,
                                                 &request)));
    EXPECT_EQ(line, refusal(ibcoll_set_group(context, words.data(), words.size(), 0, &group)));
    return line;
  };
  EXPECT_THAT(called_on({0, 0}), HasSubstr("a set needs at least one rank"));
  EXPECT_THAT(called_on({1, 1 << 6}), HasSubstr("rank 70 can't be in a set"));
  EXPECT_THAT(called_on({3}), HasSubstr("rank 1 can't be in a set: the job's ranks are 0 to 0"));
  EXPECT_THAT(refusal(ibcoll_set_call(context, nullptr, 1, 0, &call)), HasSubstr("null"));
  EXPECT_THAT(refusal(ibcoll_set_call(context, &me, 1, 0, nullptr)), HasSubstr("null"));
  EXPECT_THAT(refusal(ibcoll_set_call(nullptr, &me, 1, 0, &call)), HasSubstr("context is null"));
  EXPECT_THAT(refusal(ibcoll_set_call_init(context, &me, 1, 0, &call, nullptr)), HasSubstr("null"));
  EXPECT_THAT(refusal(ibcoll_set_group(context, &me, 1, 0, nullptr)), HasSubstr("null"));
  call.flags = IBCOLL_PERSISTENT;
  EXPECT_THAT(refusal(ibcoll_set_call(context, &me, 1, 0, &call)), HasSubstr("flags are 0x1"));
  EXPECT_EQ(request, nullptr);
  ASSERT_EQ(ibcoll_set_group(context, &me, 1, 0, &group), IBCOLL_OK) << ibcoll_last_error();
  EXPECT_EQ(ibcoll_group_status(group), IBCOLL_OK);
  EXPECT_THAT(refusal(ibcoll_group_cancel(group)), HasSubstr("end one by one"));
  EXPECT_EQ(ibcoll_group_free(group), IBCOLL_OK);
}

TEST(SetCalls, AreForMembers) {
  EXPECT_EQ(
      on_four_ranks([](const context& rank) {
        const uint64_t others = 15 & ~(uint64_t{1} << rank.rank());
        const ibcoll_call call = ibcoll_call_barrier(nullptr);
        expect(ibcoll_set_call(rank.handle(), &others, 1, 0, &call) == IBCOLL_ERR_INVALID,
               "not refused");
        const std::string line = ibcoll_last_error();
        const std::string reason = fmt::format("rank {} uses a set that it is not in", rank.rank());
        expect(line.find(reason) != std::string::npos, line);
        try {
          const set_group none = rank.on_set({}, 1);
          expect(false, "an empty set");
        } catch (const error& e) {
          expect(std::string(e.what()).find("at least one rank") != std::string::npos, e.what());
        }
      }),
      "");
}

}  // namespace
}  // namespace ibcoll
