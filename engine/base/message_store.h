#pragma once
/// Keeps messages that came before anybody could use them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/hash.h"

namespace ibcoll {

/// First-in, first-out queues of messages, one a key. What a look-up costs does not depend on how
/// many messages are kept, of whatever keys.
class MessageStore {
 public:
  struct Key {
    uint64_t group = 0;
    uint32_t sequence = 0;
    bool token = false;
    friend bool operator==(const Key&, const Key&) = default;
  };

  bool empty() const { return kept_ == 0; }
  /// What so many messages of one key take, and have taken when they are forgotten: of short ones
  /// the memory is kept.
  static size_t bytes_for(size_t messages, size_t bytes_each);
  /// What they take, about.
  size_t bytes() const { return bytes_ + kept_ * sizeof(Kept); }
  /// Copies a message to the end of its key's queue; `rest` is what follows its first part.
  void keep(const Key& key, std::span<const std::byte> message,
            std::span<const std::byte> rest = {});
  /// The first message of a key; empty: there is none. Valid until the store is changed.
  std::span<const std::byte> front(const Key& key) const;
  /// Forgets the first message of a key, which has one.
  void pop(const Key& key);
  /// Forgets the messages of a group; calls visit(message) for each of them first. Looks at all
  /// keys.
  template <class Visitor>
  void forget(uint64_t group, Visitor&& visit) {
    for (uint32_t queue = 0; queue < queues_.size() && kept_ != 0; ++queue) {
      if (queues_[queue].first == kEnd || queues_[queue].key.group != group) continue;
      while (queues_[queue].first != kEnd) {
        visit(std::span<const std::byte>(messages_[queues_[queue].first].bytes));
        pop_from(queue);
      }
    }
  }
  /// Calls visit(message) for all of them.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    for (const Queue& queue : queues_) {
      for (uint32_t i = queue.first; i != kEnd; i = messages_[i].next)
        visit(std::span<const std::byte>(messages_[i].bytes));
    }
  }
  /// How many keys the longest look-up goes past.
  size_t longest_walk() const;

 private:
  static constexpr uint32_t kEnd = ~uint32_t{0};
  static constexpr size_t kFewestBuckets = 64;
  struct Kept {
    std::vector<std::byte> bytes;
    uint32_t next = kEnd;  ///< of its key; of the free ones
  };
  /// The messages of one key.
  struct Queue {
    Key key;
    uint32_t first = kEnd, last = kEnd;  ///< none: the entry is free
    uint32_t next = kEnd;                ///< in its bucket; of the free ones
  };
  /// Of a key: a power of two of them, as many as there are keys at least.
  uint32_t& bucket(const Key& key) { return buckets_[place(key)]; }
  size_t place(const Key& key) const {
    return mix(key.group, key.sequence) & (buckets_.size() - 1);
  }
  uint32_t find(const Key& key) const;
  uint32_t add_queue(const Key& key);
  void pop_from(uint32_t queue);

  std::vector<uint32_t> buckets_;  ///< the first queue of each; none before the first message
  std::vector<Queue> queues_;
  std::vector<Kept> messages_;
  uint32_t free_queue_ = kEnd, free_message_ = kEnd;  ///< the first of those that hold nothing
  size_t keys_ = 0, kept_ = 0;
  size_t bytes_ = 0;  ///< of all messages kept
};

}  // namespace ibcoll
