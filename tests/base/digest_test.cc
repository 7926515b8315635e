// Digests, by which ranks tell who has the same.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "engine/base/digest.h"

namespace ibcoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Digest, OfEqualValuesIsEqualAndOfOthersIsNot) {
  std::set<Digest> digests;
  std::array<std::byte, 1168> value{};
  for (size_t bit = 0; bit < 8 * value.size(); ++bit) {
    value[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_EQ(digest_of(value), digest_of(std::vector(value.begin(), value.end())));
    digests.insert(digest_of(value));
    value[bit / 8] ^= std::byte{1} << bit % 8;
  }
  digests.insert(digest_of(value));
  EXPECT_EQ(digests.size(), 8 * value.size() + 1);
}

TEST(Digest, OfNothingButBytesIsNotEmpty) {
  EXPECT_TRUE(Digest().empty());
  EXPECT_FALSE(digest_of({}).empty());
  EXPECT_FALSE(digest_of_value(uint64_t{0}).empty());
  EXPECT_NE(digest_of_value(uint64_t{0}), digest_of_value(uint32_t{0}));
}

TEST(Digest, EqualsHaveANumberInTheOrderOfTheirFirst) {
  const auto of = [](const std::vector<int>& values) {
    std::vector<Digest> digests;
    for (const int value : values) digests.push_back(digest_of_value(value));
    return number_distinct(digests);
  };
  EXPECT_THAT(of({}).numbers, IsEmpty());
  EXPECT_THAT(of({}).firsts, IsEmpty());
  EXPECT_THAT(of({7, 3, 7, 7, 9, 3}).numbers, ElementsAre(0, 1, 0, 0, 2, 1));
  EXPECT_THAT(of({7, 3, 7, 7, 9, 3}).firsts, ElementsAre(0, 1, 4));
}

}  // namespace
}  // namespace ibcoll
