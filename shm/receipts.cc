#include "shm/receipts.h"

#include <utility>

#include "shm/ring.h"

namespace ibcoll::shm {

Result<uint32_t> Receipts::take() {
  if (free_.empty() && !retracted_.empty()) [[unlikely]] {
    const std::vector<uint32_t> asked = std::exchange(retracted_, {});
    for (const uint32_t receipt : asked) {
      if (!came_in(receipt)) retracted_.push_back(receipt);
    }
  }
  if (free_.empty()) {
    IBCOLL_ASSIGN(void* block, heap_->allocate(kInBlock * sizeof(Shared<uint32_t>)));
    const auto first = static_cast<uint32_t>(blocks_.size()) * kInBlock;
    blocks_.push_back(static_cast<Shared<uint32_t>*>(block));
    for (uint32_t i = kInBlock; i-- > 0;) free_.push_back(first + i);
  }
  const uint32_t receipt = free_.back();
  free_.pop_back();
  word(receipt).store(0, std::memory_order_relaxed);
  return receipt;
}

bool Receipts::came_in(uint32_t receipt) {
  const uint32_t said = word(receipt).load(std::memory_order_acquire);
  if (said == 0 || (said & kRetracted) != 0) return false;
  free_.push_back(receipt);
  return true;
}

void Receipts::retract(uint32_t receipt) {
  uint32_t out = 0;
  const bool first = word(receipt).compare_exchange_strong(out, kRetracted);
  (first ? retracted_ : free_).push_back(receipt);
}

}  // namespace ibcoll::shm
