#include "shm/mail_queue.h"

#include <cstring>

namespace ibcoll::shm {

bool MailQueue::offer(std::span<const std::byte> mail) {
  if (refused_for_no_reason(Room::kMailQueue)) return false;
  Head& head = this->head();
  // Where the others are not, mostly.
  const auto first = static_cast<uint32_t>(head.numbers.load(std::memory_order_relaxed));
  for (uint32_t i = 0; i < kMailPlaces; ++i) {
    const uint32_t place = (first + i) % kMailPlaces;
    Shared<uint64_t>& state = head.places[place];
    uint64_t free = kFree;
    if (state.load(std::memory_order_relaxed) != kFree ||
        !state.compare_exchange_strong(free, kClaimed, std::memory_order_acquire))
      continue;
    Slot& taken = slot(place);
    taken.bytes = mail.size();
    std::memcpy(taken.data(), mail.data(), mail.size());
    const uint64_t number = head.numbers.fetch_add(1, std::memory_order_relaxed);
    state.store(number << 2 | kPublished, std::memory_order_release);
    head.changes.fetch_add(1, std::memory_order_release);
    return true;
  }
  if (head.was_full.load(std::memory_order_relaxed) == 0)
    head.was_full.store(1, std::memory_order_relaxed);
  return false;
}

/// The state of the oldest mail that a look over all places finds; kFree: none. Sets front_.
uint64_t MailQueue::look() {
  uint64_t oldest = kFree;
  for (uint32_t place = 0; place < kMailPlaces; ++place) {
    const uint64_t state = head().places[place].load(std::memory_order_acquire);
    if ((state & kPublished) == 0 || (oldest != kFree && state >= oldest)) continue;
    oldest = state;
    front_ = place;
  }
  return oldest;
}

std::span<const std::byte> MailQueue::front() {
  const uint64_t changes = head().changes.load(std::memory_order_acquire);
  if (changes == seen_) return {};
  uint64_t oldest = look();
  if (oldest == kFree) {
    seen_ = changes;
    return {};
  }
  // A producer may have published one behind the look, and then the next one before it: who has
  // seen that sees the other one, too.
  for (uint64_t before = kFree; before != oldest; oldest = look()) before = oldest;
  return {slot(front_).data(), slot(front_).bytes};
}

void MailQueue::release() { head().places[front_].store(kFree, std::memory_order_release); }

bool MailQueue::was_full() {
  Shared<uint32_t>& was_full = head().was_full;
  return was_full.load(std::memory_order_relaxed) != 0 &&
         was_full.exchange(0, std::memory_order_acq_rel) != 0;
}

}  // namespace ibcoll::shm
