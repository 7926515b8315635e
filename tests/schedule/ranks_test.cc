// Lists of ranks, which take no memory where ranks are consecutive.

#include "engine/schedule/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <utility>
#include <vector>

namespace ibcoll {
namespace {

using ::testing::ElementsAreArray;

/// Both kinds, and what looks like consecutive ranks but is none.
const std::vector<std::vector<Rank>> kLists = {
    {},     {0},       {7},        {0, 1, 2, 3}, {5, 6, 7}, {3, 1, 2}, {2, 1, 0},
    {0, 2}, {0, 0, 1}, {0, -1, 2}, {-1, 0, 1},   {-1},      {1, 2, 4}};

TEST(Ranks, HaveWhatTheyWereMadeOf) {
  for (const std::vector<Rank>& ranks : kLists) {
    RankList list(std::vector<Rank>{ranks});
    const RankSpan span = list;
    ASSERT_EQ(list.size(), ranks.size());
    EXPECT_EQ(span.empty(), ranks.empty());
    EXPECT_THAT(span, ElementsAreArray(ranks));
    EXPECT_THAT(RankSpan(ranks), ElementsAreArray(ranks));
    for (size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_EQ(list[i], ranks[i]);
      EXPECT_EQ(span.begin()[static_cast<std::ptrdiff_t>(i)], ranks[i]);
    }
    std::vector<Rank> back;
    for (auto it = span.end(); it != span.begin();) back.push_back(*--it);
    EXPECT_THAT(back, ElementsAreArray(ranks.rbegin(), ranks.rend()));
    EXPECT_EQ(std::distance(span.begin(), span.end()), static_cast<std::ptrdiff_t>(ranks.size()));
    for (Rank rank = -2; rank < 10; ++rank) {
      const auto found = std::find(ranks.begin(), ranks.end(), rank);
      EXPECT_EQ(span.find(rank), static_cast<size_t>(found - ranks.begin())) << rank;
      EXPECT_EQ(RankSpan(ranks).find(rank), span.find(rank)) << rank;
    }
  }
}

TEST(Ranks, AreMoved) {
  for (const std::vector<Rank>& ranks : kLists) {
    RankList first(std::vector<Rank>{ranks});
    RankList second(std::move(first));
    EXPECT_THAT(RankSpan(second), ElementsAreArray(ranks));
    EXPECT_EQ(first.size(), 0u);  // NOLINT(bugprone-use-after-move)
    RankList third = {9, 8};
    third = std::move(second);
    EXPECT_THAT(RankSpan(third), ElementsAreArray(ranks));
  }
}

TEST(Ranks, TakeNoMemoryWhereTheyAreConsecutive) {
  std::vector<Rank> ranks(1000);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<Rank>(i + 5);
  EXPECT_EQ(RankList(std::vector<Rank>(ranks)).memory_bytes(), 0u);
  std::swap(ranks[3], ranks[4]);
  EXPECT_GE(RankList(std::vector<Rank>(ranks)).memory_bytes(), 4000u);
  const RankList three = RankList::consecutive(5, 3);
  EXPECT_THAT(RankSpan(three), ::testing::ElementsAre(5, 6, 7));
}

}  // namespace
}  // namespace ibcoll
