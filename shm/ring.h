#pragma once
/// A single-producer, single-consumer ring of messages in shared memory, one for each ordered pair
/// of local ranks.
///
/// Each message has a line: a cache line that the producer writes, its stamp last (release); the
/// consumer polls the stamp of the one line it expects next. A message of up to kInlineBytes
/// travels in that line: one line written, one line read. The payload of a longer one lies in a
/// second ring, of bytes, and the line says where. So a sender may be many short messages ahead,
/// which is what small broadcasts and gathers in a row are about, and few long ones.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/base/pages.h"
#include "engine/base/prefetch.h"
#include "engine/sharing/shared_access.h"

namespace ibcoll::shm {

enum class MessageKind : uint8_t {
  kEager,    ///< the payload is the data
  kDirect,   ///< the payload is a DirectSource: the consumer reads the data where it lies
  kStrided,  ///< a DirectSource, a StridedSource and its blocks: the same of data in runs
  kChunk,    ///< the payload is the total length and then the next part of the data
  /// Nothing of the message, or nothing more of it, comes before the consumer has asked for it by
  /// the receipt. The payload is a DirectSource without an address.
  kHeld,
  kAnswer,     ///< as kChunk, of a message that was asked for
  kHeldAgain,  ///< as kHeld, amid answers
};

/// Where the data of a kDirect message lies.
struct DirectSource {
  uint64_t address;  ///< offset in the server's region, or address in the sender's process
  uint64_t bytes;
  uint64_t receipt;  ///< offset in the region of the word that gets `ticket` when the data is read
  uint32_t ticket;
  bool in_region;
};

/// How the data of a kStrided message lies: DirectSource::address is that of the buffer's base. So
/// many StridedBlocks follow, and not only their place, since a sender that takes the message back
/// may use their memory again.
struct StridedSource {
  uint64_t begin;  ///< see StridedView
  uint64_t count;
};

struct MessageHeader {
  Shared<uint32_t> stamp;  ///< number of the message that is in the line, from 1, modulo 2^32
  uint32_t sequence;
  uint64_t group;
  uint32_t program;
  uint32_t length : 24;  ///< payload bytes
  uint32_t kind : 4;
  uint32_t token : 3;
  uint32_t timed : 1;  ///< the consumer is to tell what it takes (RingControl::told)
};
static_assert(sizeof(MessageHeader) == 24 && Shared<uint32_t>::is_always_lock_free);
inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kInlineBytes = kLineBytes - sizeof(MessageHeader);

/// A message that is there: in its ring, or set aside.
struct RingMessage {
  const MessageHeader* header;
  const std::byte* payload;

  std::span<const std::byte> head() const {
    return {reinterpret_cast<const std::byte*>(header), sizeof(MessageHeader)};
  }
  std::span<const std::byte> body() const { return {payload, header->length}; }
  /// One that lies in one piece.
  static RingMessage at(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const MessageHeader*>(bytes.data()),
            bytes.data() + sizeof(MessageHeader)};
  }
};

/// What the consumer tells the producer, but for kRetracted: how many messages it has taken off the
/// ring, which kDirect ones it has read, and how long that took where it was asked to say. The
/// latter may end in another order than they came: calls of different groups overtake each other. A
/// word for a ticket has this bit while the message is taken back: whoever has read it, but for
/// that, knows by it that what he read may be anything.
inline constexpr uint32_t kRetracted = 0x8000'0000;

struct alignas(64) RingControl {
  static constexpr uint32_t kTickets = 8;  ///< more kDirect messages get receipts elsewhere
  Shared<uint64_t> consumed;
  Shared<uint32_t> done[kTickets];  ///< [ticket % kTickets]: the last such ticket that ended
  Shared<uint32_t> full;  ///< by the producer: it has been refused room for a while (1), or not (0)
  Shared<uint32_t> sparing;  ///< much was set aside (1): what is not asked for is to be held
  Shared<uint64_t> told;  ///< of the last timed message: its stamp, and in the low half nanoseconds
};
static_assert(sizeof(RingControl) == 64);

/// Geometry of all rings of one purpose.
struct RingLayout {
  uint32_t lines;          ///< a power of two
  uint32_t payload_bytes;  ///< of the ring of payloads, whole lines; no message is longer
  constexpr size_t bytes() const {
    return sizeof(RingControl) + lines * kLineBytes + payload_bytes;
  }
};

/// One side's view of a ring. `next` counts messages produced or consumed by this side.
class Ring {
 public:
  Ring() = default;
  Ring(std::byte* memory, RingLayout layout) : memory_(memory), layout_(layout) {}

  std::span<const std::byte> memory() const { return {memory_, layout_.bytes()}; }
  uint64_t next() const { return next_; }
  uint64_t consumed() const { return control().consumed.load(std::memory_order_acquire); }
  Shared<uint32_t>& full() const { return control().full; }
  Shared<uint32_t>& sparing() const { return control().sparing; }
  Shared<uint64_t>& told() const { return control().told; }
  Shared<uint32_t>& done(uint32_t ticket) const {
    return control().done[ticket % RingControl::kTickets];
  }

  /// So many messages with payloads beside their lines are sent until it is looked whether all are
  /// consumed: then the next one lies where the first one did, which is in the caches.
  static constexpr uint32_t kHot = 4;

  // Producer.
  /// Before the first message.
  void begin_producing() { begins_.resize(layout_.lines); }
  /// Whether messages may be sent as they come, as far as there is room. Not where the consumer
  /// would have nothing set aside, as seen last: with every look at what it has consumed, so that a
  /// ring full comes to it at most before that is heeded.
  bool is_open() const { return open_; }
  void set_open(bool open) { open_ = open; }
  /// Where the payload of the next message goes, until publish(); null: there is no room for it
  /// now.
  std::byte* reserve(size_t length) {
    if (next_ - consumed_seen_ >= layout_.lines) {
      see_consumed();
      if (next_ - consumed_seen_ >= layout_.lines) return nullptr;
    }
    begins_[next_ & (layout_.lines - 1)] = tail_;
    if (length <= kInlineBytes) return line(next_) + sizeof(MessageHeader);
    return reserve_payload(static_cast<uint32_t>(round_up(length, kLineBytes)));
  }
  /// The header of the message that was reserved last.
  MessageHeader& back() { return *header(next_); }
  void publish() {
    MessageHeader& message = back();
    if (message.length > kInlineBytes) {
      const uint32_t begin = begins_[next_ & (layout_.lines - 1)];
      std::memcpy(line(next_) + sizeof(MessageHeader), &begin, sizeof(begin));
      tail_ = begin + static_cast<uint32_t>(round_up(message.length, kLineBytes));
      if (message.length <= kFetchedBytes) fetch_payload(tail_ - begin);
    }
    message.stamp.store(static_cast<uint32_t>(next_ + 1), std::memory_order_release);
    ++next_;
    prefetch_to_write(line(next_ + kAhead));
  }

  // Consumer.
  bool has_message() {
    return header(next_)->stamp.load(std::memory_order_acquire) == static_cast<uint32_t>(next_ + 1);
  }
  const MessageHeader& front() { return *header(next_); }
  RingMessage message() {
    const std::byte* payload = line(next_) + sizeof(MessageHeader);
    if (front().length > kInlineBytes) {
      uint32_t begin = 0;
      std::memcpy(&begin, payload, sizeof(begin));
      payload = payloads() + begin;
    }
    return {&front(), payload};
  }
  void release() {
    ++next_;
    control().consumed.store(next_, std::memory_order_release);
  }

 private:
  /// Lines that the consumer has read are fetched back so many messages before they are written: a
  /// trip between two cores takes about as long as so many short calls.
  static constexpr uint32_t kAhead = 3;
  /// So is where the payload of the next message is going to lie, if it is as long as the last one
  /// and that was this long at most. To write a longer one takes longer than the trip.
  static constexpr uint32_t kFetchedBytes = 1024;

  RingControl& control() const { return *reinterpret_cast<RingControl*>(memory_); }
  std::byte* line(uint64_t number) {
    return memory_ + sizeof(RingControl) + (number & (layout_.lines - 1)) * kLineBytes;
  }
  MessageHeader* header(uint64_t number) { return reinterpret_cast<MessageHeader*>(line(number)); }
  std::byte* payloads() { return memory_ + sizeof(RingControl) + layout_.lines * kLineBytes; }

  std::byte* reserve_payload(uint32_t bytes) {
    if (++since_look_ >= kHot) look();
    if (!fits(bytes)) {
      look();
      if (!fits(bytes)) return nullptr;
    }
    return payloads() + begins_[next_ & (layout_.lines - 1)];
  }
  void fetch_payload(uint32_t bytes) {
    const uint32_t begin = since_look_ + 1 >= kHot ? 0 : tail_;
    const uint32_t end = std::min(begin + bytes, layout_.payload_bytes);
    for (uint32_t at = begin; at < end; at += kLineBytes) prefetch_to_write(payloads() + at);
  }
  void see_consumed() {
    consumed_seen_ = consumed();
    if (sparing().load(std::memory_order_relaxed) != 0) [[unlikely]]
      open_ = false;
  }
  void look() {
    see_consumed();
    since_look_ = 0;
    if (consumed_seen_ == next_) tail_ = 0;
  }
  /// Sets where the next payload begins, if there is room: payloads that are not consumed yet lie
  /// between that of the oldest such message and the tail, and never take all there is.
  bool fits(uint32_t bytes) {
    uint32_t& begin = begins_[next_ & (layout_.lines - 1)];
    const uint32_t oldest =
        consumed_seen_ == next_ ? tail_ : begins_[consumed_seen_ & (layout_.lines - 1)];
    begin = tail_;
    if (tail_ < oldest) return bytes < oldest - tail_;
    if (bytes <= layout_.payload_bytes - tail_) return true;
    begin = 0;
    return bytes < oldest;
  }

  std::byte* memory_ = nullptr;
  RingLayout layout_{};
  uint64_t next_ = 0;
  uint64_t consumed_seen_ = 0;
  // Of payloads, by the producer alone.
  uint32_t tail_ = 0;        ///< where the latest one ends
  uint32_t since_look_ = 0;  ///< how many were sent since
  bool open_ = false;
  std::vector<uint32_t> begins_;  ///< by line: where its message's begins, or would
};

}  // namespace ibcoll::shm
