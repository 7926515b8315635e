#pragma once
/// Words in which peers say that they have read what was offered to them.

#include <cstdint>
#include <vector>

#include "engine/base/result.h"
#include "engine/sharing/shared_access.h"
#include "engine/sharing/test_hooks.h"
#include "shm/heap.h"

namespace ibcoll::shm {

/// Receipts of messages beyond those that a ring has room for: as many as are needed, in the rank's
/// heap.
class Receipts {
 public:
  Receipts(Heap& heap, const std::byte* region) : heap_(&heap), region_(region) {}

  /// A receipt that is out; kNoMemory where the heap is full.
  Result<uint32_t> take();
  /// Its word's offset in the region: the reader stores anything but 0 there.
  uint64_t offset(uint32_t receipt) const {
    return static_cast<uint64_t>(reinterpret_cast<const std::byte*>(&word(receipt)) - region_);
  }
  /// True once when it has come in; the receipt is free then.
  bool came_in(uint32_t receipt);
  /// The message is taken back, unless its receipt has come in; it is not asked for any more.
  void retract(uint32_t receipt);

 private:
  IBCOLL_LIMIT(uint32_t, kInBlock, 1024);
  Shared<uint32_t>& word(uint32_t receipt) const {
    return blocks_[receipt / kInBlock][receipt % kInBlock];
  }

  Heap* heap_;
  const std::byte* region_;
  std::vector<Shared<uint32_t>*> blocks_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> retracted_;  ///< peers have not dropped their messages yet
};

}  // namespace ibcoll::shm
