// Copies between memory of any layout, against the definition byte by byte.

#include "engine/base/strided_copy.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/strided_blocks.h"

namespace ibcoll {
namespace {

using testing::places_of;
using testing::StridedSide;

StridedBlock strided(const ibcoll_block& block) {
  return canonical({block.offset, static_cast<uint64_t>(ibcoll_block_bytes(block)),
                    static_cast<uint64_t>(block.bytes), static_cast<uint64_t>(block.count),
                    block.stride, static_cast<uint64_t>(block.outer_count), block.outer_stride});
}

/// Some lengths that add up to `bytes`.
std::vector<int64_t> cut(int64_t bytes, std::mt19937& random) {
  std::vector<int64_t> lengths;
  while (bytes > 0) {
    lengths.push_back(random() % 4 == 0 ? 0 : 1 + static_cast<int64_t>(random() % bytes));
    bytes -= lengths.back();
  }
  lengths.push_back(0);
  return lengths;
}

struct Memory {
  StridedSide side;
  std::vector<StridedBlock> blocks;
  std::vector<std::byte> bytes;
  std::vector<int64_t> places;  ///< of all bytes, in `bytes`

  Memory(const std::vector<int64_t>& lengths, std::mt19937& random)
      : side(lengths, random() % 5 != 0, true, random), bytes(side.bytes + 1) {
    for (const ibcoll_block& block : side.blocks) {
      blocks.push_back(strided(block));
      for (const int64_t place : places_of(block)) places.push_back(place + side.base);
    }
  }
  StridedView view() {
    return {bytes.data() + side.base, blocks.data(), static_cast<uint32_t>(blocks.size())};
  }
};

TEST(StridedCopy, MovesEachByteToItsPlaceInWhateverPieces) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const int64_t bytes = 1 + static_cast<int64_t>(random() % (round % 10 == 0 ? 20000 : 300));
    Memory from(cut(bytes, random), random), to(cut(bytes, random), random);
    for (std::byte& one : from.bytes) one = static_cast<std::byte>(random());
    std::vector<std::byte> expected = to.bytes;
    for (int64_t i = 0; i < bytes; ++i) expected[to.places[i]] = from.bytes[from.places[i]];
    for (int64_t done = 0; done < bytes;) {
      const int64_t piece =
          random() % 2 == 0 ? bytes - done : 1 + static_cast<int64_t>(random() % (bytes - done));
      copy_strided(to.view().from(done), from.view().from(done), piece);
      done += piece;
    }
    ASSERT_EQ(to.bytes, expected) << "round " << round;
    std::vector<std::byte> packed(bytes);
    copy_strided({packed.data()}, from.view(), bytes);
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(packed[i], from.bytes[from.places[i]]);
  }
}

TEST(StridedCopy, WhatIsContiguousIsOneRun) {
  EXPECT_TRUE(strided({5, 8, 10, 8, 1, 0}).is_contiguous());
  EXPECT_TRUE(strided({5, 8, 1, 99, 10, 8}).is_contiguous());
  EXPECT_TRUE(strided({5, 8, 10, 8, 3, 80}).is_contiguous());
  EXPECT_TRUE(strided({5, 8, 1, -7, 1, 100}).is_contiguous());
  EXPECT_FALSE(strided({5, 8, 10, 8, 3, 81}).is_contiguous());
  EXPECT_FALSE(strided({5, 8, 10, -8, 1, 0}).is_contiguous());
  const StridedBlock row = strided({0, 4, 5, 12, 7, 60});
  EXPECT_EQ(row.count, 35u);
  EXPECT_EQ(row.outer_count, 1u);
}

TEST(StridedCopy, ReachesAsFarAsItsBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const ibcoll_block block = testing::any_layout(1 + random() % 500, random);
    const std::vector<int64_t> places = places_of(block);
    const StridedBlock::Reach reach = strided(block).reach();
    EXPECT_EQ(reach.begin, *std::min_element(places.begin(), places.end()));
    EXPECT_EQ(reach.end, *std::max_element(places.begin(), places.end()) + 1);
    EXPECT_FALSE(overlaps_itself(strided(block)));
  }
  EXPECT_TRUE(overlaps_itself(strided({0, 8, 2, 7, 1, 0})));
  EXPECT_TRUE(overlaps_itself(strided({0, 8, 2, 8, 2, 0})));
}

}  // namespace
}  // namespace ibcoll
