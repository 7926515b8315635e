// The memory that ranks share: what a core dump of one holds, and pages of every size.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "engine/base/pages.h"
#include "engine/bootstrap/self.h"
#include "engine/bootstrap/shared_region.h"
#include "tests/bootstrap/both_starts.h"

namespace ibcoll {
namespace {

class SharedRegions : public BothStarts {};
INSTANTIATE_TEST_SUITE_P(, SharedRegions, kBothStarts, name_of_start);

/// More than this machine has.
size_t twice_the_memory() {
  return 2 * static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(getpagesize());
}

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

TEST_P(SharedRegions, AreSharedByTheRanksOfAColour) {
  const auto result = launch(6, [](Bootstrap& bootstrap) -> int {
    const int colour = bootstrap.rank() == 5 ? -1 : bootstrap.rank() % 2;
    auto region = SharedRegion::create(bootstrap, colour, 1 << 20, "test");
    if (!region) return kWrong;
    if (colour < 0) return region->data() == nullptr && region->size() == 0 ? kGood : kWrong;
    auto* words = reinterpret_cast<std::atomic<int>*>(region->data());
    if (region->size() != 1 << 20) return kWrong;
    words[bootstrap.rank()].store(bootstrap.rank() + 1);
    SharedRegion moved = std::move(*region);
    while (words[colour].load() == 0 || words[colour + 2].load() == 0) std::this_thread::yield();
    for (Rank rank = 0; rank < 5; ++rank)
      if (rank % 2 != colour && words[rank].load() != 0) return kWrong;
    return kGood;
  });
  // Rank 5 leaves early, which nobody waits for.
  EXPECT_EQ(result.value(), kGood);
}

TEST_P(SharedRegions, OutliveTheRankThatMadeThem) {
  const auto result = launch(2, [](Bootstrap& bootstrap) -> int {
    auto region = SharedRegion::create(bootstrap, 3, 4096, "test");
    if (!region) return kWrong;
    if (bootstrap.rank() == 0) region = SharedRegion();
    if (!bootstrap.barrier()) return kWrong;
    if (bootstrap.rank() == 1) region->data()[4095] = std::byte{1};
    return kGood;
  });
  EXPECT_EQ(result.value(), kGood);
}

TEST_P(SharedRegions, OfAnySizeCostNothingUntilTouched) {
  const auto result = launch(2, [](Bootstrap& bootstrap) -> int {
    const size_t bytes = twice_the_memory();
    auto region = SharedRegion::create(bootstrap, 0, bytes, "huge");
    if (!region) return kWrong;
    region->data()[bytes - 1 - static_cast<size_t>(bootstrap.rank())] = std::byte{7};
    return bootstrap.barrier() ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), kGood);
}

TEST_P(SharedRegions, ThatCannotBeAreRefusedForTheirColourOnly) {
  const auto result = launch(4, [](Bootstrap& bootstrap) -> int {
    const bool odd = bootstrap.rank() % 2 == 1;
    // Even ranks disagree on the size; odd ones are right.
    auto region =
        SharedRegion::create(bootstrap, odd, odd ? 4096 : 4096 * (bootstrap.rank() + 1), "t");
    if (odd != region.has_value()) return kWrong;
    if (!odd &&
        (region.error().code != ErrorCode::kMismatch ||
         region.error().message != "rank 0 wants shared memory of 4096 bytes, rank 2 of 12288"))
      return kWrong;
    region = SharedRegion::create(bootstrap, 0, 0, "empty");
    if (region || region.error().code != ErrorCode::kInvalidArgument) return kWrong;
    region = SharedRegion::create(bootstrap, 0, ~size_t{0} >> 2, "absurd");
    if (region) return kWrong;
    return bootstrap.barrier() ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), kGood);
}

TEST_P(SharedRegions, ReserveRefusesMoreThanThereIsAndReleaseGivesBack) {
  const auto result = launch(2, [](Bootstrap& bootstrap) -> int {
    auto region = SharedRegion::create(bootstrap, 0, twice_the_memory(), "test");
    if (!region) return kWrong;
    if (bootstrap.rank() == 0) {
      const Status too_much = region->reserve(0, region->size());
      if (too_much || too_much.error().code != ErrorCode::kNoMemory) return kNoError;
      if (region->reserve(region->size() - 4, 5)) return kNoError;
      if (!region->reserve(1 << 20, 3 << 20) || !region->reserve(1 << 20, 3 << 20)) return kWrong;
      region->data()[2 << 20] = std::byte{9};
      region->release(1 << 20, 3 << 20);
      if (region->data()[2 << 20] != std::byte{0}) return kWrong;
    }
    return bootstrap.barrier() ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), kGood);
}

/// Two regions of different colours and one that only some want, at a time: the lowest of those
/// that share one has prepared it before the others, and all have when they get it.
TEST_P(SharedRegions, AreMadeSeveralAtATime) {
  const auto result = launch(6, [](Bootstrap& bootstrap) -> int {
    const Rank me = bootstrap.rank();
    const auto prepare = [&](Rank lowest) {
      return [me, lowest](SharedRegion& region) -> Status {
        auto* const words = reinterpret_cast<std::atomic<int>*>(region.data());
        if (me != lowest && words[lowest].load() != 1)
          return fail(ErrorCode::kInternal, "rank {} comes before rank {}", me, lowest);
        words[me].store(1);
        return {};
      };
    };
    const int parity = me % 2;
    const std::array<SharedRegion::Request, 3> requests{
        {{.colour = 0, .bytes = 1 << 20, .name = "all", .prepare = prepare(0)},
         {.colour = parity, .bytes = 4096, .name = "half", .prepare = prepare(parity)},
         {.colour = me < 3 ? -1 : 7, .bytes = 8192, .name = "some", .prepare = prepare(3)}}};
    const auto regions = SharedRegion::create_all(bootstrap, requests);
    if (!regions || regions->size() != 3) return kWrong;
    const auto prepared = [&](size_t region, Rank rank) {
      return reinterpret_cast<const std::atomic<int>*>((*regions)[region].data())[rank].load() == 1;
    };
    for (Rank rank = 0; rank < 6; ++rank) {
      if (!prepared(0, rank) || prepared(1, rank) != (rank % 2 == parity)) return kWrong;
      if (me >= 3 && prepared(2, rank) != (rank >= 3)) return kWrong;
    }
    return (me < 3) == ((*regions)[2].data() == nullptr) ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), kGood);
}

TEST_P(SharedRegions, AreAsSmallAsOneOfItsRanksWants) {
  const auto result = launch(5, [](Bootstrap& bootstrap) -> int {
    const Rank me = bootstrap.rank();
    const auto region =
        SharedRegion::create(bootstrap, {.colour = me % 2,
                                         .bytes = 4096 * static_cast<size_t>(10 - me),
                                         .name = "small",
                                         .smallest = true});
    return region && region->size() == (me % 2 == 0 ? 6u : 7u) * 4096 ? kGood : kWrong;
  });
  EXPECT_EQ(result.value(), kGood);
}

/// Whoever fails, the one that makes a region included, and whatever else the ranks share.
TEST_P(SharedRegions, ErrorsOfPreparationsAreThoseOfAllThatShareTheRegion) {
  for (const Rank failing : {1, 3}) {
    const auto result = launch(5, [failing](Bootstrap& bootstrap) -> int {
      const Rank me = bootstrap.rank();
      const auto prepare = [&](SharedRegion&) -> Status {
        if (me != failing) return {};
        return fail(ErrorCode::kNoMemory, "no memory on rank {}", me);
      };
      const std::array<SharedRegion::Request, 3> requests{
          {{.colour = 0, .bytes = 4096, .name = "all"},
           {.colour = me % 2, .bytes = 4096, .name = "half", .prepare = prepare},
           {.colour = 0, .bytes = 4096, .name = "last"}}};
      const auto regions = SharedRegion::create_all(bootstrap, requests);
      if (!bootstrap.barrier()) return kWrong;
      if (me % 2 == 0) return regions && (*regions)[2].size() == 4096 ? kGood : kWrong;
      if (regions) return kNoError;
      const bool right = regions.error().code == ErrorCode::kNoMemory &&
                         regions.error().message == fmt::format("no memory on rank {}", failing);
      return right ? kGood : kWrong;
    });
    EXPECT_EQ(result.value(), kGood) << failing;
  }
}

}  // namespace
}  // namespace ibcoll
