#include "integrations/mpi/collapse.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "engine/base/pages.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1; others refuse it
#endif

namespace ibcoll::mpi {

namespace {

/// A call collapses so much at most, which takes some 10 ms.
constexpr size_t kAtOnce = 16 << 20;
/// Of kernels whose huge pages are larger, parts that are not in use would cost too much memory.
constexpr size_t kLargestPage = 32 << 20;

size_t g_page = 0;  ///< bytes of a huge page

/// Which buffers have come, and how far they are collapsed. Those that have come once only make
/// room for others; when all places of a set are taken by others no more buffers are collapsed.
class Seen {
 public:
  static constexpr uint64_t kNothing = UINT64_MAX;

  /// The part that is to be collapsed now, from 0; kNothing: none.
  uint64_t next_part(uintptr_t begin, size_t bytes, uint64_t parts) {
    uint64_t hash = (begin ^ bytes * 0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93;
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93;
    const uint64_t tag = hash & ~kPartMask;
    std::atomic<uint64_t>* const set = &entries_[(hash >> 40 & (kSets - 1)) * kWays];
    std::atomic<uint64_t>* place = nullptr;
    bool is_empty = false;
    for (size_t i = 0; i < kWays; ++i) {
      const size_t way = ((hash >> 50) + i) & (kWays - 1);
      uint64_t entry = set[way].load(std::memory_order_relaxed);
      if ((entry & ~kPartMask) == tag && entry != 0) {
        const uint64_t part = (entry & kPartMask) - 1;
        if (part == parts) return kNothing;
        // Of several threads that come with it one collapses this part.
        return set[way].compare_exchange_strong(entry, entry + 1) ? part : kNothing;
      }
      if ((entry & kPartMask) > 1 || is_empty) continue;
      place = &set[way];
      is_empty = entry == 0;
    }
    if (place != nullptr) place->store(tag | 1, std::memory_order_relaxed);
    return kNothing;
  }
  static constexpr uint64_t kMostParts = (1 << 16) - 2;

 private:
  /// An entry: a hash, and below it the parts that are done, plus one. 0: empty.
  static constexpr uint64_t kPartMask = (1 << 16) - 1;
  static constexpr size_t kSets = 256, kWays = 8;
  std::array<std::atomic<uint64_t>, kSets* kWays> entries_ = {};
};

Seen& seen() {
  static Seen all;
  return all;
}

/// Whether most of a huge page is in use: no program is to need much more memory than before, and
/// none of what is not its own.
bool is_in_use(std::byte* page) {
  static thread_local std::vector<unsigned char> resident(kLargestPage / page_bytes());
  if (mincore(page, g_page, resident.data()) != 0) return false;
  const auto pages = static_cast<ptrdiff_t>(g_page / page_bytes());
  const auto used = std::count_if(resident.begin(), resident.begin() + pages,
                                  [](unsigned char flags) { return (flags & 1) != 0; });
  return used >= pages - pages / 4;
}

size_t huge_page_bytes() {
  size_t bytes = 0;
  std::ifstream("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") >> bytes;
  return bytes <= kLargestPage ? bytes : 0;
}

/// A buffer of a call of this rank's.
void note_buffer(const Job& job, const void* begin, size_t bytes) {
  if (bytes < kLeastCollapsed || begin == nullptr || begin == IBCOLL_IN_PLACE) return;
  const auto at = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = at / g_page * g_page, end = round_up(at + bytes, g_page);
  const uint64_t parts = std::min((end - first + kAtOnce - 1) / kAtOnce, Seen::kMostParts);
  const uint64_t part = seen().next_part(at, bytes, parts);
  if (part == Seen::kNothing) return;
  int is_shared = 0;
  if (job.context != nullptr &&
      ibcoll_memory_is_shared(job.context, begin, bytes, &is_shared) == IBCOLL_OK && is_shared != 0)
    return;
  const uintptr_t from = first + part * kAtOnce, to = std::min(from + kAtOnce, end);
  for (uintptr_t page = from; page < to; page += g_page) {
    auto* const address = reinterpret_cast<std::byte*>(page);
    // What can't be collapsed stays as it is: memory that several processes share, or that devices
    // have been told of.
    if (is_in_use(address)) (void)madvise(address, g_page, MADV_COLLAPSE);
  }
}

/// Up to the end of the last one of unequal blocks.
size_t end_of(const int64_t* counts, const int64_t* places, int blocks) {
  int64_t end = 0;
  for (int i = 0; counts != nullptr && places != nullptr && i < blocks; ++i)
    end = std::max(end, places[i] + counts[i]);
  return static_cast<size_t>(end);
}

}  // namespace

void begin_collapse(bool wanted) {
  g_page = wanted ? huge_page_bytes() : 0;
  detail::g_collapses = g_page != 0;
}

void note_buffers(const Job& job, const ibcoll_call& call, size_t sent, int ranks) {
  const CollectiveTraits& row = traits(static_cast<Collective>(call.collective));
  if (row.has_graph || row.send.lengths == Lengths::kLayouts) return;
  const auto used = [&](const SideTraits& side, const int64_t* counts, const int64_t* places) {
    if (side.lists()) return end_of(counts, places, ranks);
    if (side.lengths == Lengths::kOwn) return static_cast<size_t>(call.own_count);
    const bool of_all = side.slots == Slots::kEachRank;
    if (!row.reduces) return call.bytes * static_cast<size_t>(of_all ? ranks : 1);
    return of_all || row.send.slots == Slots::kOne ? sent : sent / static_cast<size_t>(ranks);
  };
  const size_t send = used(row.send, call.send_counts, call.send_displacements);
  const size_t recv = used(row.recv, call.recv_counts, call.recv_displacements);
  // Blocks of several layouts are somewhere else.
  if (call.send_blocks == nullptr) note_buffer(job, call.send, send);
  if (call.recv_blocks == nullptr) note_buffer(job, call.recv, recv);
}

}  // namespace ibcoll::mpi
