#pragma once
/// The allocator of one rank's part of the server's shared memory.

#include <cstddef>
#include <map>
#include <unordered_map>

#include "engine/base/pages.h"
#include "engine/base/result.h"
#include "engine/bootstrap/shared_region.h"

namespace ibcoll::shm {

/// The capacity of each heap of a server with that many ranks where nobody asks for one: the
/// machine's memory, or less where the address space (or a limit on it) does not hold that for
/// every rank twice over, but no less than 64 MB. Differs between ranks with different limits.
size_t default_heap_bytes(int ranks);

/// Hands out page-aligned ranges of [begin, begin + capacity) of a shared region and takes them
/// back. A range has memory reserved behind it, so a machine that is full gives an error here and
/// no signal later. Used by its owner only.
class Heap {
 public:
  /// `begin` and `capacity` are multiples of `page`, the size of the pages that are handed out.
  Heap(SharedRegion& region, size_t begin, size_t capacity, size_t page = page_bytes());

  /// At least `bytes` bytes (also for 0), aligned to a page.
  Result<void*> allocate(size_t bytes);
  /// Gives back what allocate returned; the error names an address that it did not. Needs no
  /// memory.
  Status free(void* address);
  /// The length of what allocate returned and was not freed yet; 0 for any other address.
  size_t bytes_at(const void* address) const;
  /// Bytes handed out now.
  size_t used() const { return used_; }

 private:
  SharedRegion* region_;
  size_t capacity_, page_, used_ = 0;
  using Ranges = std::map<size_t, size_t>;  ///< offset -> bytes
  struct Taken {
    size_t bytes = 0;
    Ranges::node_type range;  ///< for when it is free again
  };
  Ranges free_;                              ///< coalesced
  std::unordered_map<size_t, Taken> taken_;  ///< by offset
};

}  // namespace ibcoll::shm
