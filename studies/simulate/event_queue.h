#pragma once
/// The events of a simulation in the order of their times.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace ibcoll::sim {

/// Simulated time: whole picoseconds, so that a packet's time at any usual rate is exact to 1e-5.
using Time = int64_t;

constexpr Time kPicosecondsPerNanosecond = 1000;

/// The number of no event, link, queue or message.
inline constexpr uint32_t kNone = ~uint32_t{0};

struct Event {
  Time time = 0;
  uint64_t order = 0;  ///< when it was pushed: events of one time come in this order
  uint32_t index = 0;  ///< what it is about
  uint8_t kind = 0;
};

/// A calendar queue: a ring of buckets, each a short stretch of time, holds what is due soon; what
/// is due within the present bucket, and what lies beyond the ring, is in heaps. Push and pop take
/// constant time when buckets are about as long as events lie apart. Memory is kept and reused:
/// nothing is allocated once it has grown.
class EventQueue {
 public:
  /// Buckets become the power of two of picoseconds next below `bucket`.
  explicit EventQueue(Time bucket = 1 << 16)
      : shift_(std::bit_width(static_cast<uint64_t>(std::max<Time>(bucket, 1))) - 1),
        ring_(kBuckets, kNone) {}

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  /// `time` must not lie before the latest event popped.
  void push(Time time, uint8_t kind, uint32_t index) {
    const Event event{time, ++pushed_, index, kind};
    const uint64_t bucket = bucket_of(time);
    ++size_;
    if (bucket <= present_) {
      near_.push_back(event);
      std::push_heap(near_.begin(), near_.end(), later);
    } else if (bucket < present_ + kBuckets) {
      put_in_ring(bucket, event);
    } else {
      far_.push_back(event);
      std::push_heap(far_.begin(), far_.end(), later);
    }
  }

  /// The time of the next event; there must be one.
  Time next_time() {
    if (near_.empty()) turn();
    return near_.front().time;
  }

  /// Takes the next event out; there must be one.
  Event pop() {
    if (near_.empty()) turn();
    std::pop_heap(near_.begin(), near_.end(), later);
    const Event event = near_.back();
    near_.pop_back();
    --size_;
    return event;
  }

 private:
  static constexpr uint64_t kBuckets = 1024;
  struct Node {
    Event event;
    uint32_t next;
  };

  static bool later(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
  uint64_t bucket_of(Time time) const { return static_cast<uint64_t>(time) >> shift_; }

  void put_in_ring(uint64_t bucket, const Event& event) {
    uint32_t node = free_;
    if (node != kNone) {
      free_ = nodes_[node].next;
    } else {
      node = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
    }
    const uint64_t slot = bucket % kBuckets;
    nodes_[node] = {event, ring_[slot]};
    ring_[slot] = node;
    occupied_[slot / 64] |= uint64_t{1} << slot % 64;
  }

  /// How many buckets after the present one the next occupied one is; kBuckets: none is.
  uint64_t steps_to_next() const {
    constexpr uint64_t kWords = kBuckets / 64;
    const uint64_t first = (present_ + 1) % kBuckets;
    uint64_t word = occupied_[first / 64] & (~uint64_t{0} << first % 64);
    for (uint64_t i = 0; i <= kWords; ++i) {
      if (word != 0) {
        const uint64_t slot = (first / 64 + i) % kWords * 64 + std::countr_zero(word);
        return (slot + kBuckets - first) % kBuckets + 1;
      }
      word = occupied_[(first / 64 + i + 1) % kWords];
    }
    return kBuckets;
  }

  /// Goes on to the next bucket that holds something.
  void turn() {
    const uint64_t steps = steps_to_next();
    uint64_t next = present_ + steps;
    if (!far_.empty() && (steps == kBuckets || bucket_of(far_.front().time) < next)) {
      next = bucket_of(far_.front().time);
    }
    present_ = next;
    while (!far_.empty() && bucket_of(far_.front().time) < present_ + kBuckets) {
      std::pop_heap(far_.begin(), far_.end(), later);
      const Event event = far_.back();
      far_.pop_back();
      if (bucket_of(event.time) == present_) {
        near_.push_back(event);
      } else {
        put_in_ring(bucket_of(event.time), event);
      }
    }
    const uint64_t slot = present_ % kBuckets;
    for (uint32_t node = ring_[slot]; node != kNone;) {
      near_.push_back(nodes_[node].event);
      const uint32_t next_node = nodes_[node].next;
      nodes_[node].next = free_;
      free_ = node;
      node = next_node;
    }
    ring_[slot] = kNone;
    occupied_[slot / 64] &= ~(uint64_t{1} << slot % 64);
    std::make_heap(near_.begin(), near_.end(), later);
  }

  int shift_;
  uint64_t present_ = 0;  // bucket
  uint64_t pushed_ = 0;
  size_t size_ = 0;
  std::vector<Event> near_;     // of the present bucket: a heap
  std::vector<uint32_t> ring_;  // by bucket: list of nodes
  uint64_t occupied_[kBuckets / 64] = {};
  std::vector<Node> nodes_;
  uint32_t free_ = kNone;
  std::vector<Event> far_;  // past the ring: a heap
};

}  // namespace ibcoll::sim
