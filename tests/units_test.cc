#include "engine/base/units.h"

#include <gtest/gtest.h>

namespace ibcoll {
namespace {

TEST(Units, SizesAreBinary) {
  EXPECT_EQ(parse_size("0").value(), 0);
  EXPECT_EQ(parse_size("1K").value(), 1024);
  EXPECT_EQ(parse_size("1.5M").value(), 1536 * 1024);
  EXPECT_EQ(parse_size("3GiB").value(), int64_t{3} << 30);
}

TEST(Units, BadSizesAreRefusedWithTheText) {
  for (const char* text :
       {"", "-1", "K", "1Q", "1e9", "0.3", "99999999T", "1 K", "nan", "inf", "0x10"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size.has_value()) << text;
    EXPECT_NE(size.error().message.find(text), std::string::npos);
  }
}

TEST(Units, RangesAndLists) {
  EXPECT_EQ(parse_sizes("1K,64K").value(), (std::vector<int64_t>{1024, 65536}));
  EXPECT_EQ(parse_sizes("0-4").value(), (std::vector<int64_t>{0, 1, 2, 4}));
  EXPECT_EQ(parse_sizes("64-4K:8").value(), (std::vector<int64_t>{64, 512, 4096}));
  EXPECT_FALSE(parse_sizes("4K-1K"));
  EXPECT_FALSE(parse_sizes("1K,,2K"));
  EXPECT_FALSE(parse_sizes("1K-2K:1"));
}

TEST(Units, FormattedSizesReadBack) {
  for (const int64_t size :
       {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{1024}, int64_t{1536}, int64_t{1} << 31}) {
    EXPECT_EQ(parse_size(format_size(size)).value(), size);
  }
}

TEST(Units, DurationsAndRates) {
  EXPECT_EQ(parse_duration("1.5us").value(), 1500);
  EXPECT_EQ(parse_duration("2").value(), 2'000'000'000);
  EXPECT_FALSE(parse_duration("-1s"));
  EXPECT_DOUBLE_EQ(parse_rate("10Gbit/s").value(), 1.25e9);
  EXPECT_FALSE(parse_rate("10"));
}

}  // namespace
}  // namespace ibcoll
