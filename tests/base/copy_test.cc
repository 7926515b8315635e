#include "engine/base/copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace ibcoll {
namespace {

/// Every byte of the source is in place and none around it has changed, at every alignment.
void check_kernel(CopyKernel copy) {
  constexpr size_t kRoom = 64, kMax = 5000;
  std::vector<unsigned char> from(kMax + 2 * kRoom), to(kMax + 2 * kRoom);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(1 + i * 37 % 251);
  for (const size_t bytes : {0, 1, 7, 63, 64, 65, 255, 256, 257, 320, 1000, 4096, 4999}) {
    for (size_t to_offset = 0; to_offset < kRoom; to_offset += 7) {
      for (const size_t from_offset : {0, 1, 32, 63}) {
        std::fill(to.begin(), to.end(), 0xee);
        copy(to.data() + to_offset, from.data() + from_offset, bytes);
        for (size_t i = 0; i < to.size(); ++i) {
          const bool inside = i >= to_offset && i < to_offset + bytes;
          ASSERT_EQ(to[i], inside ? from[from_offset + i - to_offset] : 0xee)
              << "byte " << i << " of a copy of " << bytes << " from +" << from_offset << " to +"
              << to_offset;
        }
      }
    }
  }
}

TEST(Copy, PlainCopiesExactlyItsBytes) { check_kernel(copy_plain); }
TEST(Copy, StreamingCopiesExactlyItsBytes) { check_kernel(copy_streaming); }
TEST(Copy, RepMovsbCopiesExactlyItsBytes) { check_kernel(copy_rep_movsb); }

TEST(Copy, KernelFollowsTheFootprintOfAllRanks) {
  const size_t cache = last_level_cache_bytes();
  ASSERT_GT(cache, size_t{0});
  EXPECT_EQ(copy_kernel_for(cache / 4), copy_plain);
  EXPECT_EQ(copy_kernel_for(4 * cache), copy_streaming);
}

}  // namespace
}  // namespace ibcoll
