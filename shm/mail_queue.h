#pragma once
/// The queue in which all ranks of a server leave mails for one of them.

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/shared_access.h"

namespace ibcoll::shm {

/// A bounded queue with many producers and one consumer, in zeroed shared memory (after D. Vyukov's
/// bounded queue). One queue a rank, not a pair of ranks: whoever polls looks at one line, and
/// memory grows with the ranks. Mails of one producer stay in order.
class MailQueue {
 public:
  static constexpr uint32_t kMails = 32;
  static size_t bytes(size_t mail_bytes) { return sizeof(Head) + kMails * slot_bytes(mail_bytes); }

  MailQueue() = default;
  MailQueue(std::byte* memory, size_t mail_bytes)
      : memory_(memory), slot_bytes_(slot_bytes(mail_bytes)) {}

  /// Any producer. False: full.
  bool offer(std::span<const std::byte> mail);
  /// The consumer: the oldest mail, until release(); empty: there is none.
  std::span<const std::byte> front();
  void release();

 private:
  struct alignas(64) Head {
    Shared<uint64_t> tail;  ///< mails for which producers have taken a slot
  };
  struct Slot {
    /// How often the slot has been filled and emptied: even: it is empty.
    Shared<uint64_t> turns;
    uint64_t bytes;
    std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  };
  static constexpr size_t slot_bytes(size_t mail_bytes) {
    return (sizeof(Slot) + mail_bytes + 63) / 64 * 64;
  }
  Head& head() const { return *reinterpret_cast<Head*>(memory_); }
  Slot& slot(uint64_t number) const {
    return *reinterpret_cast<Slot*>(memory_ + sizeof(Head) + number % kMails * slot_bytes_);
  }

  std::byte* memory_ = nullptr;
  size_t slot_bytes_ = 0;
  uint64_t taken_ = 0;  ///< by the consumer
};

}  // namespace ibcoll::shm
