#include "engine/core/scratch_pool.h"

#include <algorithm>

namespace ibcoll {

Result<std::byte*> ScratchPool::take(size_t bytes) {
  if (bytes == 0) return nullptr;
  auto best = free_.end();
  for (auto piece = free_.begin(); piece != free_.end(); ++piece) {
    if (piece->bytes >= bytes && (best == free_.end() || piece->bytes < best->bytes)) best = piece;
  }
  if (best != free_.end()) {
    kept_ -= best->bytes;
    taken_.push_back(*best);
    free_.erase(best);
    return taken_.back().memory;
  }
  // Those that are too small give way, so that calls that grow don't leave a trail.
  while (!free_.empty()) drop_oldest();
  IBCOLL_ASSIGN(void* memory, heap_->allocate(bytes));
  taken_.push_back({static_cast<std::byte*>(memory), bytes});
  return taken_.back().memory;
}

void ScratchPool::put(std::byte* memory) noexcept {
  // What was taken last is given back first, most of the time.
  const auto place = std::find_if(taken_.rbegin(), taken_.rend(),
                                  [memory](const Piece& piece) { return piece.memory == memory; });
  if (place == taken_.rend()) return;
  kept_ += place->bytes;
  free_.push_back(*place);
  *place = taken_.back();
  taken_.pop_back();
  while (free_.size() > 1 && (kept_ > kKeptBytes || free_.size() > kKeptPieces)) drop_oldest();
}

void ScratchPool::drop_oldest() {
  kept_ -= free_.front().bytes;
  (void)heap_->free(free_.front().memory);
  free_.erase(free_.begin());
}

}  // namespace ibcoll
