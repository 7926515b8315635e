#include "shm/receipts.h"

namespace ibcoll::shm {

Result<uint32_t> Receipts::take() {
  if (free_.empty()) {
    IBCOLL_ASSIGN(void* block, heap_->allocate(kInBlock * sizeof(std::atomic<uint32_t>)));
    const auto first = static_cast<uint32_t>(blocks_.size()) * kInBlock;
    blocks_.push_back(static_cast<std::atomic<uint32_t>*>(block));
    for (uint32_t i = kInBlock; i-- > 0;) free_.push_back(first + i);
  }
  const uint32_t receipt = free_.back();
  free_.pop_back();
  word(receipt).store(0, std::memory_order_relaxed);
  return receipt;
}

bool Receipts::came_in(uint32_t receipt) {
  if (word(receipt).load(std::memory_order_acquire) == 0) return false;
  free_.push_back(receipt);
  return true;
}

}  // namespace ibcoll::shm
