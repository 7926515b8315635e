#pragma once
/// A single-producer, single-consumer ring of messages in shared memory, one for each ordered pair
/// of local ranks.
///
/// The producer writes a slot's payload and header, then its stamp (release); the consumer polls
/// the stamp of the one slot it expects next. A message of up to kInlineBytes travels in the
/// stamp's own cache line: one line written, one line read.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ibcoll::shm {

enum class MessageKind : uint8_t {
  kEager,   ///< the payload is the data
  kDirect,  ///< the payload is a DirectSource: the consumer reads the data where it lies
  kChunk,   ///< the payload is the total length and then the next part of the data
};

/// Where the data of a kDirect message lies.
struct DirectSource {
  uint64_t address;  ///< offset in the server's region, or address in the sender's process
  uint64_t bytes;
  uint64_t receipt;  ///< offset in the region of the word that gets `ticket` when the data is read
  uint32_t ticket;
  bool in_region;
};

struct SlotHeader {
  std::atomic<uint32_t> stamp;  ///< number of the message that is in the slot, from 1, modulo 2^32
  uint32_t sequence;
  uint64_t group;
  uint32_t program;
  uint32_t length : 24;  ///< payload bytes
  uint32_t kind : 4;
  uint32_t token : 4;

  std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
  const std::byte* payload() const { return reinterpret_cast<const std::byte*>(this + 1); }
};
static_assert(sizeof(SlotHeader) == 24 && std::atomic<uint32_t>::is_always_lock_free);
inline constexpr size_t kInlineBytes = 64 - sizeof(SlotHeader);

/// What the consumer tells the producer, but for kRetracted: how many messages it has taken off the
/// ring, and which kDirect ones it has read. The latter may end in another order than they came:
/// calls of different groups overtake each other. A word for a ticket has this bit while the
/// message is taken back: whoever has read it, but for that, knows by it that what he read may be
/// anything.
inline constexpr uint32_t kRetracted = 0x8000'0000;

struct alignas(64) RingControl {
  static constexpr uint32_t kTickets = 8;  ///< more kDirect messages get receipts elsewhere
  std::atomic<uint64_t> consumed;
  std::atomic<uint32_t> done[kTickets];  ///< [ticket % kTickets]: the last such ticket that ended
};
static_assert(sizeof(RingControl) == 64);

/// Geometry of all rings of one purpose. Slots are whole cache lines.
struct RingLayout {
  uint32_t slots;       ///< a power of two
  uint32_t slot_bytes;  ///< a multiple of 64
  constexpr size_t bytes() const { return sizeof(RingControl) + size_t{slots} * slot_bytes; }
  constexpr size_t payload_bytes() const { return slot_bytes - sizeof(SlotHeader); }
};

/// One side's view of a ring. `next` counts messages produced or consumed by this side.
class Ring {
 public:
  Ring() = default;
  Ring(std::byte* memory, RingLayout layout) : memory_(memory), layout_(layout) {}

  std::span<const std::byte> memory() const { return {memory_, layout_.bytes()}; }
  uint64_t next() const { return next_; }
  uint64_t consumed() const { return control().consumed.load(std::memory_order_acquire); }
  std::atomic<uint32_t>& done(uint32_t ticket) const {
    return control().done[ticket % RingControl::kTickets];
  }

  // Producer.
  bool has_room() {
    if (next_ - consumed_seen_ < layout_.slots) return true;
    consumed_seen_ = consumed();
    return next_ - consumed_seen_ < layout_.slots;
  }
  SlotHeader& back() { return slot(next_); }
  void publish() {
    back().stamp.store(static_cast<uint32_t>(next_ + 1), std::memory_order_release);
    ++next_;
  }

  // Consumer.
  bool has_message() {
    return slot(next_).stamp.load(std::memory_order_acquire) == static_cast<uint32_t>(next_ + 1);
  }
  const SlotHeader& front() { return slot(next_); }
  void release() {
    ++next_;
    control().consumed.store(next_, std::memory_order_release);
  }

 private:
  RingControl& control() const { return *reinterpret_cast<RingControl*>(memory_); }
  SlotHeader& slot(uint64_t number) {
    return *reinterpret_cast<SlotHeader*>(memory_ + sizeof(RingControl) +
                                          (number & (layout_.slots - 1)) * layout_.slot_bytes);
  }

  std::byte* memory_ = nullptr;
  RingLayout layout_{};
  uint64_t next_ = 0;
  uint64_t consumed_seen_ = 0;
};

}  // namespace ibcoll::shm
