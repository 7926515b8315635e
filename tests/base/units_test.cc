#include "engine/base/units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/link_rate.h"

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

TEST(LinkRate, IsTheDataRateOfTheSpecification) {
  struct Row {
    const char* name;
    double gbits;  // of the specification's table
  };
  for (const Row& row :
       {Row{"1xSDR", 2}, Row{"4xSDR", 8}, Row{"4xDDR", 16}, Row{"4xQDR", 32}, Row{"4xFDR10", 40},
        Row{"4xFDR", 54.545}, Row{"4xEDR", 100}, Row{"12xEDR", 300}, Row{"2xHDR", 100},
        Row{"4xHDR", 200}, Row{"4xNDR", 400}, Row{"8xNDR", 800}, Row{"4xXDR", 800}}) {
    EXPECT_NEAR(link_rate(row.name) * 8e-9, row.gbits, 0.001) << row.name;
  }
}

TEST(LinkRate, CodesAndNamesAgree) {
  const char* const widths[] = {"1x", "4x", "8x", "12x", "2x"};
  const char* const speeds[] = {"SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR"};
  for (uint32_t width = 0; width < 5; ++width) {
    for (uint32_t speed = 0; speed < 9; ++speed) {
      const std::string name = std::string(widths[width]) + speeds[speed];
      EXPECT_GT(link_rate(name), 0) << name;
      EXPECT_EQ(link_rate(1u << width, 1u << speed), link_rate(name)) << name;
    }
  }
}

TEST(LinkRate, IsZeroForWhatIsNone) {
  for (const char* name : {"", "4x", "xEDR", "EDR", "3xEDR", "4xedr", "4xEDR2", "-4xEDR", "4 xEDR"})
    EXPECT_EQ(link_rate(name), 0) << name;
  EXPECT_EQ(link_rate(2, 0), 0);
  EXPECT_EQ(link_rate(0, 32), 0);
  EXPECT_EQ(link_rate(3, 32), 0);
  EXPECT_EQ(link_rate(2, 512), 0);
}

TEST(Hash, TellsValuesPlacesAndLengthsApart) {
  EXPECT_NE(mix(0, 1), mix(0, 2));
  EXPECT_NE(mix(mix(0, 1), 2), mix(mix(0, 2), 1));
  EXPECT_NE(mix(0, 0), 0u);
  EXPECT_NE(mix(mix(0, 0), 0), mix(0, 0));
  EXPECT_NE(hash_bytes("ring"), hash_bytes("gnir"));
}

TEST(Hash, OfBytesIsFnv1a) { EXPECT_EQ(hash_bytes("a"), 0xaf63dc4c8601ec8cu); }

TEST(Hash, BucketsTakeNeighboursApart) {
  std::vector<int> used(64);
  for (uint64_t value = 0; value < 64; ++value) ++used[bucket_of(value, 6)];
  EXPECT_LE(*std::max_element(used.begin(), used.end()), 3);
}

}  // namespace
}  // namespace ibcoll
