// Which messages are copied through rings, by what copying costs.

#include "engine/costs/ring_limits.h"

#include <gtest/gtest.h>

namespace ibcoll {
namespace {

/// As `ib_info --costs` has measured on three machines.
PairCosts shared_cache() {  // AMD EPYC, both cores on one last-level cache
  PairCosts costs;
  costs.round_trip = 124;
  costs.write = {210, 2063, 9695};
  costs.read = {200, 620, 1733};
  costs.stream_write = {100, 351, 1432};
  costs.stream_read = {742, 2053, 5248};
  costs.vm_call = 1242;
  costs.vm_page = 410;
  return costs;
}
PairCosts caches_apart() {  // the same, on two
  PairCosts costs;
  costs.round_trip = 504;
  costs.write = {521, 4076, 29143};
  costs.read = {561, 1402, 3866};
  costs.stream_write = {60, 200, 1282};
  costs.stream_read = {591, 1442, 3826};
  costs.vm_call = 1036;
  costs.vm_page = 596;
  return costs;
}
PairCosts large_caches() {  // Intel Xeon with 2 MB a core
  PairCosts costs;
  costs.round_trip = 292;
  costs.write = {71, 1006, 6256};
  costs.read = {669, 1726, 5567};
  costs.stream_write = {87, 967, 6387};
  costs.stream_read = {518, 1368, 7221};
  costs.vm_call = 418;
  costs.vm_page = 416;
  return costs;
}

TEST(RingLimits, WhereWritingTakesLongWritesGoPastTheCaches) {
  const RingLimits limits = ring_limits(caches_apart());
  EXPECT_EQ(limits.streaming, 512u);
  EXPECT_EQ(limits.of_private, kLongestInRing);
  EXPECT_EQ(limits.of_private_one_way, kLongestInRing);
}

TEST(RingLimits, WhereTheReaderFindsThemInACacheOnlyLongOnesDo) {
  const RingLimits limits = ring_limits(shared_cache());
  EXPECT_GE(limits.streaming, 8u << 10);
  EXPECT_LE(limits.streaming, 32u << 10);
  EXPECT_GE(limits.of_private, 4u << 10);
  EXPECT_LE(limits.of_private, 64u << 10);
}

TEST(RingLimits, WhereItGainsNothingTheKernelReadsMore) {
  const RingLimits limits = ring_limits(large_caches());
  EXPECT_EQ(limits.streaming, SIZE_MAX);
  EXPECT_GE(limits.of_private, 4u << 10);
  EXPECT_LE(limits.of_private, 16u << 10);
  EXPECT_GT(limits.of_private_one_way, limits.of_private);
}

TEST(RingLimits, ACheaperKernelReadsMoreAndADearerOneLess) {
  PairCosts cheap = large_caches(), dear = large_caches();
  cheap.vm_page /= 2;
  cheap.vm_call /= 2;
  dear.vm_page *= 2;
  dear.vm_call *= 2;
  EXPECT_LT(ring_limits(cheap).of_private, ring_limits(large_caches()).of_private);
  EXPECT_GT(ring_limits(dear).of_private, ring_limits(large_caches()).of_private);
}

TEST(RingLimits, WithoutTheKernelAllThatFitsIsCopied) {
  PairCosts costs = large_caches();
  costs.vm_call = costs.vm_page = 0;
  EXPECT_EQ(ring_limits(costs).of_private, kLongestInRing);
  EXPECT_EQ(ring_limits(costs).of_private_one_way, kLongestInRing);
}

TEST(RingLimits, AQuickAnswerIsWorthLessCopying) {
  PairCosts quick = large_caches(), slow = large_caches();
  quick.round_trip = 60;
  slow.round_trip = 2000;
  quick.write[0] = slow.write[0] = 400;
  EXPECT_LT(ring_limits(quick).of_shared, ring_limits(slow).of_shared);
  EXPECT_LE(ring_limits(quick).of_shared, ring_limits(quick).of_shared_one_way);
  EXPECT_EQ(ring_limits(slow).of_shared, RingLimits().of_shared);
}

}  // namespace
}  // namespace ibcoll
