#pragma once
/// The queue in which all ranks of a server leave mails for one of them.

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/sharing/shared_access.h"
#include "engine/sharing/test_hooks.h"

namespace ibcoll::shm {

/// A bounded queue with many producers and one consumer, in zeroed shared memory. One queue a rank,
/// not a pair of ranks: whoever polls looks at one line, and memory grows with the ranks. Mails of
/// one producer stay in order.
///
/// Places are not taken in order: a producer claims any that is free, fills it, and publishes it
/// with its number. So one that is stopped amid that, or dies, holds up its own mail and nobody
/// else's; what it had claimed is one place less.
class MailQueue {
 public:
  static constexpr uint32_t kMails = 32;
  /// As many of these places are used.
  IBCOLL_LIMIT(uint32_t, kMailPlaces, kMails);
  static size_t bytes(size_t mail_bytes) { return sizeof(Head) + kMails * slot_bytes(mail_bytes); }

  MailQueue() = default;
  MailQueue(std::byte* memory, size_t mail_bytes)
      : memory_(memory), slot_bytes_(slot_bytes(mail_bytes)) {}

  /// Any producer. False: full.
  bool offer(std::span<const std::byte> mail);
  /// The consumer: the oldest mail, until release(); empty: there is none.
  std::span<const std::byte> front();
  void release();
  /// Whether a producer has found no room since the last time that this was asked. It looks again
  /// before it sleeps: ask after bell_fence(), behind release().
  bool was_full();

 private:
  static constexpr uint64_t kFree = 0, kClaimed = 1, kPublished = 2;
  struct alignas(64) Head {
    Shared<uint64_t> numbers;  ///< mails that have been numbered
    Shared<uint64_t> changes;  ///< counts mails that have been published: what the consumer polls
    Shared<uint32_t> was_full;
    /// Of each place: kFree, kClaimed, or kPublished and the mail's number times 4.
    alignas(64) Shared<uint64_t> places[kMails];
  };
  struct Slot {
    uint64_t bytes;
    std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  };
  static constexpr size_t slot_bytes(size_t mail_bytes) {
    return (sizeof(Slot) + mail_bytes + 63) / 64 * 64;
  }
  uint64_t look();
  Head& head() const { return *reinterpret_cast<Head*>(memory_); }
  Slot& slot(uint32_t place) const {
    return *reinterpret_cast<Slot*>(memory_ + sizeof(Head) + place * slot_bytes_);
  }

  std::byte* memory_ = nullptr;
  size_t slot_bytes_ = 0;
  // Of the consumer.
  uint64_t seen_ = 0;   ///< `changes` when nothing was left
  uint32_t front_ = 0;  ///< the place of the mail that was handed out
};

}  // namespace ibcoll::shm
