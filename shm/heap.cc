#include "shm/heap.h"

#include <algorithm>

#include "engine/base/log.h"

namespace ibcoll::shm {

Heap::Heap(SharedRegion& region, size_t begin, size_t capacity, size_t page)
    : region_(&region), capacity_(capacity), page_(page) {
  free_[begin] = capacity;
}

Result<void*> Heap::allocate(size_t bytes) {
  if (bytes > capacity_) {
    return fail(ErrorCode::kNoMemory,
                "can't allocate {} bytes: a rank's shared heap holds {} (IBCOLL_HEAP)", bytes,
                capacity_);
  }
  const size_t size = round_up(std::max<size_t>(bytes, 1), page_);
  const auto fit = std::find_if(free_.begin(), free_.end(),
                                [size](const auto& range) { return range.second >= size; });
  if (fit == free_.end()) {
    return fail(
        ErrorCode::kNoMemory,
        "can't allocate {} bytes: {} of the {} bytes of the shared heap are in use (IBCOLL_HEAP)",
        bytes, used_, capacity_);
  }
  const auto [offset, available] = *fit;
  IBCOLL_TRY(region_->reserve(offset, size));
  free_.erase(fit);
  if (available > size) free_[offset + size] = available - size;
  taken_[offset] = size;
  used_ += size;
  return region_->data() + offset;
}

Status Heap::free(void* address) {
  const size_t offset = static_cast<std::byte*>(address) - region_->data();
  const auto found = taken_.find(offset);
  if (found == taken_.end()) {
    return fail(ErrorCode::kInvalidArgument,
                "{} was not allocated by this rank, or is freed already", fmt::ptr(address));
  }
  const size_t size = found->second;
  taken_.erase(found);
  used_ -= size;
  Status released = region_->release(offset, size);
  auto range = free_.emplace(offset, size).first;
  if (const auto after = std::next(range); after != free_.end() && offset + size == after->first) {
    range->second += after->second;
    free_.erase(after);
  }
  if (range != free_.begin()) {
    if (const auto before = std::prev(range); before->first + before->second == range->first) {
      before->second += range->second;
      free_.erase(range);
    }
  }
  return released;
}

}  // namespace ibcoll::shm
