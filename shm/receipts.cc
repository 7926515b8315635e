#include "shm/receipts.h"

#include <vector>

#include "shm/ring.h"

namespace ibcoll::shm {

Result<uint32_t> Receipts::take() {
  if (free_.empty() && !retracted_.empty()) [[unlikely]] {
    std::erase_if(retracted_, [this](uint32_t receipt) { return came_in(receipt); });
  }
  if (free_.empty()) {
    // Those that come in, or are taken back, need no memory then.
    const auto first = static_cast<uint32_t>(blocks_.size()) * kInBlock;
    blocks_.reserve(blocks_.size() + 1);
    free_.reserve(first + kInBlock);
    retracted_.reserve(first + kInBlock);
    IBCOLL_ASSIGN(void* block, heap_->allocate(kInBlock * sizeof(Shared<uint32_t>)));
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
