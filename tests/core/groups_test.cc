// Groups by list and bitmap, with the caller's identifier.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/cxx_job.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using testing::expect;
using ::testing::HasSubstr;
using testing::on_four_ranks;

/// What the C interface says when it refuses; "" if it does not.
std::string refusal(ibcoll_status status) {
  return status == IBCOLL_ERR_INVALID ? ibcoll_last_error() : "";
}

constexpr std::array<int, 4> kEveryRank{0, 1, 2, 3};

TEST(GroupIdentifiers, TellGroupsApartInWhateverOrderTheyAreMadeAndUsed) {
  EXPECT_EQ(on_four_ranks([](const context& rank) {
              constexpr int kGroups = 3;
              std::array<std::optional<subgroup>, kGroups> groups;
              std::array<std::vector<int>, kGroups> send, recv;
              std::array<request, kGroups> calls;
              for (int round = 0; round < 5; ++round) {
                for (int i = 0; i < kGroups; ++i) {
                  const int which = (i + rank.rank()) % kGroups;
                  groups[which].emplace(rank.handle(), kEveryRank, 1000 + which);
                }
                for (int i = 0; i < kGroups; ++i) {
                  const int which = (i + 2 * rank.rank() + 1) % kGroups;
                  send[which].assign(4, 100 * which + 10 * round + rank.rank());
                  recv[which].assign(4, -1);
                  calls[which] = groups[which]->ialltoall<int>(send[which], recv[which]);
                }
                for (int which = 0; which < kGroups; ++which) {
                  calls[which].wait();
                  for (int from = 0; from < 4; ++from) {
                    expect(recv[which][from] == 100 * which + 10 * round + from,
                           fmt::format("group {} has {} from rank {} in round {}", which,
                                       recv[which][from], from, round));
                  }
                }
                for (auto& group : groups) group.reset();
              }
            }),
            "");
}

TEST(GroupIdentifiers, MayBeGivenAgainAtOnce) {
  EXPECT_EQ(on_four_ranks([](const context& rank) {
              std::vector<int> recv(4);
              for (int round = 0; round < 200; ++round) {
                const subgroup group(rank.handle(), kEveryRank, 7);
                std::vector<int> send(4, round + rank.rank());
                group.allgather<int>(std::span<const int>(send).first(1), recv);
                for (int from = 0; from < 4; ++from)
                  expect(recv[from] == round + from, fmt::format("round {} is wrong", round));
              }
            }),
            "");
}

TEST(GroupIdentifiers, AreRefusedAsLongAsAGroupHasThem) {
  EXPECT_EQ(on_four_ranks([](const context& rank) {
              const ibcoll_group_options options{sizeof options, 42};
              const auto make = [&](std::span<const int> ranks, ibcoll_group** group) {
                return ibcoll_group_create_with(rank.handle(), ranks.data(),
                                                static_cast<int>(ranks.size()), &options, group);
              };
              ibcoll_group *first = nullptr, *second = nullptr, *other = nullptr;
              detail::check(make(kEveryRank, &first));
              const std::string line = refusal(make(kEveryRank, &second));
              expect(line.find("identifier 42") != std::string::npos, "made twice: " + line);
              // Other ranks, or none of them, may have it.
              constexpr std::array<int, 4> kTurned{3, 2, 1, 0};
              detail::check(make(kTurned, &other));
              detail::check(ibcoll_group_free(other));
              detail::check(ibcoll_group_create(rank.handle(), kEveryRank.data(), 4, &other));
              detail::check(ibcoll_group_free(other));
              // A request of it that goes on keeps it.
              ibcoll_request* request = nullptr;
              const ibcoll_call call = ibcoll_call_barrier(nullptr);
              detail::check(ibcoll_call_init(first, &call, &request));
              detail::check(ibcoll_group_free(first));
              expect(!refusal(make(kEveryRank, &second)).empty(), "made while a request has it");
              detail::check(ibcoll_call_free(request));
              detail::check(make(kEveryRank, &second));
              detail::check(ibcoll_barrier(second, nullptr));
              detail::check(ibcoll_group_free(second));
            }),
            "");
}

TEST(GroupsFromBitmaps, HaveTheRanksOfTheirBits) {
  EXPECT_EQ(on_four_ranks([](const context& rank) {
              // Words that are not needed may be there.
              const std::array<uint64_t, 3> odd{0b1010, 0, 0}, all{0b1111, 0, 0};
              if (rank.rank() % 2 == 1) {
                const subgroup group = subgroup::from_bitmap(rank.handle(), odd, 5);
                expect(group.size() == 2 && group.rank() == rank.rank() / 2, "other members");
                std::vector<int> send{rank.rank()}, recv(2);
                group.allgather<int>(send, recv);
                expect(recv == std::vector<int>{1, 3}, "not in ascending order");
              }
              // It is the group of that list, however the others make it.
              const subgroup group = rank.rank() < 2 ? subgroup::from_bitmap(rank.handle(), all, 9)
                                                     : subgroup(rank.handle(), kEveryRank, 9);
              std::vector<int> send{rank.rank()}, recv(4);
              group.allgather<int>(send, recv);
              expect(recv == std::vector<int>{0, 1, 2, 3}, "another group");
            }),
            "");
}

TEST(GroupsFromBitmaps, AreRefusedByTheRankThatCanNotBe) {
  const job alone;
  ibcoll_context* const context = alone.context().handle();
  ibcoll_group* group = nullptr;
  const auto made_of = [&](std::vector<uint64_t> words) {
    return refusal(
        ibcoll_group_create_from_bitmap(context, words.data(), words.size(), nullptr, &group));
  };
  EXPECT_THAT(made_of({1, 1 << 6}), HasSubstr("rank 70 can't be in a group"));
  EXPECT_THAT(made_of({2}), HasSubstr("rank 1 can't be"));
  EXPECT_THAT(made_of({0, 0}), HasSubstr("at least one rank"));
  EXPECT_THAT(refusal(ibcoll_group_create_from_bitmap(context, nullptr, 1, nullptr, &group)),
              HasSubstr("null"));
  const uint64_t word = 1;
  EXPECT_THAT(refusal(ibcoll_group_create_from_bitmap(context, &word, 1, nullptr, nullptr)),
              HasSubstr("null"));
  EXPECT_THAT(refusal(ibcoll_group_create_from_bitmap(nullptr, &word, 1, nullptr, &group)),
              HasSubstr("the context is null"));
}

TEST(GroupOptions, OfOtherVersionsAreTakenOrRefusedByValue) {
  const job alone;
  ibcoll_context* const context = alone.context().handle();
  const int rank = 0;
  ibcoll_group *group = nullptr, *second = nullptr;
  const auto make = [&](const ibcoll_group_options& options, ibcoll_group** made) {
    return ibcoll_group_create_with(context, &rank, 1, &options, made);
  };
  EXPECT_THAT(refusal(make({0, 1}, &group)), HasSubstr("struct_size 0 of an ibcoll_group_options"));
  EXPECT_THAT(refusal(make({99'999, 1}, &group)), HasSubstr("struct_size 99999"));
  // A struct without an identifier: two of them may live.
  EXPECT_EQ(make({sizeof(size_t), 1}, &group), IBCOLL_OK);
  EXPECT_EQ(make({sizeof(size_t), 1}, &second), IBCOLL_OK);
  EXPECT_EQ(ibcoll_group_free(group), IBCOLL_OK);
  EXPECT_EQ(ibcoll_group_free(second), IBCOLL_OK);
}

}  // namespace
}  // namespace ibcoll
