#include "shm/heap.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>

#include "engine/base/log.h"

namespace ibcoll::shm {
namespace {

/// True if so much address space is free, and files may be as large.
bool fits(size_t bytes) {
  rlimit files{};
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < bytes) return false;
  void* const space =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return false;
  munmap(space, bytes);
  return true;
}

}  // namespace

size_t default_heap_bytes(int ranks) {
  struct sysinfo info {};
  sysinfo(&info);
  constexpr size_t kLeast = size_t{64} << 20;
  size_t bytes = std::max(kLeast, size_t{info.totalram} * info.mem_unit);
  while (bytes > kLeast && !fits(2 * bytes * static_cast<size_t>(ranks)))
    bytes = std::max(kLeast, bytes / 2);
  return round_down(bytes, page_bytes());
}

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
  // In this order: if memory runs out nothing has changed.
  Taken& own = taken_[offset];
  if (available > size) free_.emplace(offset + size, available - size);
  own = {size, free_.extract(fit)};
  used_ += size;
  return region_->data() + offset;
}

size_t Heap::bytes_at(const void* address) const {
  const auto found =
      taken_.find(static_cast<size_t>(static_cast<const std::byte*>(address) - region_->data()));
  return found == taken_.end() ? 0 : found->second.bytes;
}

Status Heap::free(void* address) {
  const size_t offset = static_cast<std::byte*>(address) - region_->data();
  const auto found = taken_.find(offset);
  if (found == taken_.end() || found->second.bytes == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "{} was not allocated by this rank, or is freed already", fmt::ptr(address));
  }
  const size_t size = found->second.bytes;
  Ranges::node_type own = std::move(found->second.range);
  taken_.erase(found);
  used_ -= size;
  Status released = region_->release(offset, size);
  own.mapped() = size;
  auto range = free_.insert(std::move(own)).position;
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
