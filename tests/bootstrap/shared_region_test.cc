// The memory that ranks share: what a core dump of one holds, and pages of every size.

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "engine/base/pages.h"
#include "engine/bootstrap/self.h"
#include "engine/bootstrap/shared_region.h"

namespace ibcoll {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

/// Bytes of this process's mappings of that name which a core dump would hold.
size_t dumped_bytes(const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  size_t dumped = 0, size = 0;
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ') && line.find(':') > line.find(' ')) {  // begins a mapping
      ours = line.find(name) != std::string::npos;
    } else if (line.starts_with("Size:")) {
      size = std::stoull(line.substr(5)) * 1024;
    } else if (line.starts_with("VmFlags:") && ours && line.find(" dd") == std::string::npos) {
      dumped += size;
    }
  }
  return dumped;
}

TEST(SharedRegionDumps, HoldWhatIsReservedAndNoMore) {
  const auto job = self_bootstrap();
  auto region = SharedRegion::create(*job, 0, 1024 * kMegabyte, "dumped");
  ASSERT_TRUE(region) << region.error().message;
  EXPECT_EQ(dumped_bytes("ibcoll-dumped"), 0u);
  ASSERT_TRUE(region->reserve(64 * kMegabyte, 2 * kMegabyte));
  EXPECT_EQ(dumped_bytes("ibcoll-dumped"), 2 * kMegabyte);
  region->include_in_dumps(0, 100);
  EXPECT_EQ(dumped_bytes("ibcoll-dumped"), 2 * kMegabyte + page_bytes());
  ASSERT_TRUE(region->release(64 * kMegabyte, 2 * kMegabyte));
  EXPECT_EQ(dumped_bytes("ibcoll-dumped"), page_bytes());
}

TEST(SharedRegionRelease, KeepsThePagesOfItsNeighbours) {
  const auto job = self_bootstrap();
  auto region = SharedRegion::create(*job, 0, kMegabyte, "neighbours");
  ASSERT_TRUE(region) << region.error().message;
  const size_t page = page_bytes();
  ASSERT_TRUE(region->reserve(0, 4 * page));
  for (size_t i = 0; i < 4; ++i) region->data()[i * page] = std::byte{7};
  // From the middle of page 0 to the middle of page 2.
  const Status released = region->release(page / 2, 2 * page);
  ASSERT_TRUE(released) << released.error().message;
  EXPECT_EQ(region->data()[0], std::byte{7});
  EXPECT_EQ(region->data()[page], std::byte{0});
  EXPECT_EQ(region->data()[2 * page], std::byte{7});
}

TEST(Pages, RoundToThoseOfTheSystem) {
  constexpr size_t k4 = 4096, k64 = 65536;
  EXPECT_EQ(pages_within(k4, 2 * k4, k4), (ByteRange{k4, 2 * k4}));
  // Four pages of 4 KB are a part of one of 64 KB: nothing can be given back.
  EXPECT_EQ(pages_within(k4, 4 * k4, k64).bytes, 0u);
  EXPECT_EQ(pages_within(k4, k64 + 15 * k4, k64), (ByteRange{k64, k64}));
  EXPECT_EQ(pages_touched(k4, 1, k64), (ByteRange{0, k64}));
  EXPECT_EQ(pages_touched(k64 - 1, 2, k64), (ByteRange{0, 2 * k64}));
  EXPECT_EQ(pages_touched(k4, 0, k64).bytes, 0u);
  EXPECT_EQ(round_up(1, k64), k64);
}

}  // namespace
}  // namespace ibcoll
