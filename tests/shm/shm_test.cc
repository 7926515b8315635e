// The parts of shared memory inside a server, one by one.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "shm/gates.h"
#include "shm/heap.h"
#include "shm/mail_queue.h"
#include "shm/receipts.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::RankView;
using testing::run_job;

/// A region of this thread alone.
void with_region(size_t bytes, const std::function<void(SharedRegion&)>& body) {
  const Result<int> status = launch_threads(1, [&](Bootstrap& bootstrap) {
    Result<SharedRegion> region = SharedRegion::create(bootstrap, 0, bytes, "test");
    EXPECT_TRUE(region);
    if (region) body(*region);
    return 0;
  });
  EXPECT_TRUE(status);
}

TEST(Heap, KeepsBuffersOnPagesOfTheirOwnWhateverTheirSize) {
  with_region(size_t{1} << 20, [](SharedRegion& region) {
    constexpr size_t kLargePage = size_t{64} << 10;
    shm::Heap heap(region, 0, size_t{1} << 20, kLargePage);
    std::array<std::byte*, 3> buffers{};
    for (auto& buffer : buffers) {
      buffer = static_cast<std::byte*>(heap.allocate(5000).value());
      std::memset(buffer, 0x5a, 5000);
    }
    EXPECT_EQ(static_cast<size_t>(buffers[1] - buffers[0]), kLargePage);
    ASSERT_TRUE(heap.free(buffers[1]));
    for (const size_t kept : {0, 2}) {
      for (size_t i = 0; i < 5000; ++i) ASSERT_EQ(buffers[kept][i], std::byte{0x5a});
    }
    EXPECT_EQ(heap.used(), 2 * kLargePage);
    EXPECT_FALSE(heap.allocate((size_t{1} << 20) - kLargePage));
  });
}

/// In whatever order its neighbours are given back, memory is one piece again.
TEST(Heap, IsWholeAgainWhenAllIsGivenBack) {
  constexpr size_t kPages = 6, kPage = 4096;
  with_region(kPages * kPage, [](SharedRegion& region) {
    shm::Heap heap(region, 0, kPages * kPage, kPage);
    std::array<size_t, kPages> order{};
    std::iota(order.begin(), order.end(), size_t{0});
    do {
      std::array<void*, kPages> pages{};
      for (void*& page : pages) page = heap.allocate(kPage).value();
      for (const size_t i : order) ASSERT_TRUE(heap.free(pages[i]));
      const Result<void*> all = heap.allocate(kPages * kPage);
      ASSERT_TRUE(all);
      ASSERT_TRUE(heap.free(*all));
    } while (std::next_permutation(order.begin(), order.end()));
  });
}

TEST(Heap, IsByDefaultAsLargeAsTheMachinesMemoryForManyRanks) {
  struct sysinfo info {};
  ASSERT_EQ(sysinfo(&info), 0);
  const size_t memory = size_t{info.totalram} * info.mem_unit;
  EXPECT_GE(shm::default_heap_bytes(1) + page_bytes(), memory);
  // Where there are the usual 47 bits of address space.
  if (void* much = mmap(nullptr, size_t{1} << 45, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      much != MAP_FAILED && memory < size_t{1} << 36) {
    munmap(much, size_t{1} << 45);
    EXPECT_GE(shm::default_heap_bytes(192) + page_bytes(), memory);
  }
  EXPECT_LT(shm::default_heap_bytes(1 << 20), size_t{1} << 47 >> 20);
}

/// Where files, as the region is one, may have no bytes.
TEST(Heap, IsByDefault64MegabytesWhereNothingFits) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &files), 0);
  const rlimit none{0, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const size_t bytes = shm::default_heap_bytes(3);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &files), 0);
  EXPECT_EQ(bytes, size_t{64} << 20);
}

TEST(Gates, AreThereForAsManyGroupsAsThereAre) {
  constexpr size_t kRanks = 2;
  with_region(shm::Gates::bytes(kRanks), [](SharedRegion& region) {
    std::array<shm::Gates, kRanks> gates{shm::Gates(region, 0, 0, kRanks),
                                         shm::Gates(region, 0, 1, kRanks)};
    ASSERT_TRUE(gates[0].prepare());
    constexpr uint64_t kGroups = 5000;
    std::vector<uint32_t> slots;
    for (uint64_t group = 0; group < kGroups; ++group) {
      slots.push_back(gates[0].open(group * 77, kRanks).value());
      ASSERT_EQ(gates[1].open(group * 77, kRanks).value(), slots.back());
    }
    for (const uint32_t slot : slots) gates[0].signal(slot, slot, 1);
    for (const uint32_t slot : slots) {
      EXPECT_TRUE(gates[1].passed(0, slot, slot, 1));
      EXPECT_FALSE(gates[1].passed(1, slot, slot, 1));
    }
    for (const uint32_t slot : slots) {
      gates[0].close(slot);
      gates[1].close(slot);
    }
    // What was freed is used again, as new.
    for (uint64_t group = 0; group < kGroups; ++group) {
      const auto slot = gates[0].open(group + 1'000'000, kRanks);
      ASSERT_TRUE(slot);
      EXPECT_LT(*slot, kGroups);
      EXPECT_FALSE(gates[1].passed(0, *slot, *slot, 1));
    }
  });
}

TEST(Gates, OfARankThatIsDoneStayUntilItsPeersHaveSeenThem) {
  with_region(shm::Gates::bytes(2), [](SharedRegion& region) {
    shm::Gates early(region, 0, 0, 2), late(region, 0, 1, 2);
    ASSERT_TRUE(early.prepare());
    const uint32_t slot = early.open(9, 2).value();
    early.signal(slot, 0, 1);
    early.close(slot);
    EXPECT_NE(early.open(10, 2).value(), slot);
    ASSERT_EQ(late.open(9, 2).value(), slot);
    EXPECT_TRUE(late.passed(0, slot, 0, 1));
  });
}

TEST(Receipts, ComeInOnceEach) {
  with_region(size_t{1} << 20, [](SharedRegion& region) {
    shm::Heap heap(region, 0, size_t{1} << 20);
    shm::Receipts receipts(heap, region.data());
    std::vector<uint32_t> out;
    for (int i = 0; i < 3000; ++i) out.push_back(receipts.take().value());
    for (const uint32_t receipt : out) EXPECT_FALSE(receipts.came_in(receipt));
    for (const uint32_t receipt : out) {
      reinterpret_cast<std::atomic<uint32_t>*>(region.data() + receipts.offset(receipt))->store(1);
      EXPECT_TRUE(receipts.came_in(receipt));
    }
    const size_t used = heap.used();
    for (int i = 0; i < 3000; ++i) EXPECT_TRUE(receipts.take());
    EXPECT_EQ(heap.used(), used);
  });
}

TEST(Receipts, LieInTheirBlocksAlone) {
  with_region(size_t{1} << 20, [](SharedRegion& region) {
    shm::Heap heap(region, 0, size_t{1} << 20);
    shm::Receipts receipts(heap, region.data());
    ASSERT_TRUE(receipts.take());
    const size_t block = heap.used();
    void* const neighbour = heap.allocate(64).value();
    std::memset(neighbour, 0xff, 64);
    const size_t used = heap.used();
    for (size_t i = 1; i < block / sizeof(uint32_t); ++i) ASSERT_TRUE(receipts.take());
    EXPECT_EQ(heap.used(), used);
    for (size_t i = 0; i < 64; ++i)
      ASSERT_EQ(static_cast<const unsigned char*>(neighbour)[i], 0xff);
  });
}

}  // namespace
}  // namespace ibcoll
