#include "shm/mail_queue.h"

#include <cstring>

namespace ibcoll::shm {

bool MailQueue::offer(std::span<const std::byte> mail) {
  uint64_t number = head().tail.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t turns = slot(number).turns.load(std::memory_order_acquire);
    const uint64_t empty = 2 * (number / kMails);
    if (turns < empty) return false;  // a mail of the round before is still there
    if (turns == empty &&
        head().tail.compare_exchange_weak(number, number + 1, std::memory_order_relaxed))
      break;
    if (turns > empty) number = head().tail.load(std::memory_order_relaxed);
  }
  Slot& taken = slot(number);
  taken.bytes = mail.size();
  std::memcpy(taken.data(), mail.data(), mail.size());
  taken.turns.fetch_add(1, std::memory_order_release);
  return true;
}

std::span<const std::byte> MailQueue::front() {
  Slot& oldest = slot(taken_);
  if (oldest.turns.load(std::memory_order_acquire) != 2 * (taken_ / kMails) + 1) return {};
  return {oldest.data(), oldest.bytes};
}

void MailQueue::release() { slot(taken_++).turns.fetch_add(1, std::memory_order_release); }

}  // namespace ibcoll::shm
