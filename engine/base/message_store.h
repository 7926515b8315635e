#pragma once
/// Keeps messages that came before anybody could use them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/hash.h"

namespace ibcoll {

/// First-in, first-out queues of messages, one a key. What a look-up costs does not depend on how
/// many messages of other keys are kept.
class MessageStore {
 public:
  struct Key {
    uint64_t group = 0;
    uint32_t sequence = 0;
    bool token = false;
    friend bool operator==(const Key&, const Key&) = default;
  };

  bool empty() const { return kept_ == 0; }
  /// Copies a message to the end of its key's queue; `rest` is what follows its first part.
  void keep(const Key& key, std::span<const std::byte> message,
            std::span<const std::byte> rest = {});
  /// The first message of a key; empty: there is none. Valid until the store is changed.
  std::span<const std::byte> front(const Key& key) const;
  /// Forgets the first message of a key, which has one.
  void pop(const Key& key);
  /// Forgets the messages of a group; calls visit(message) for each of them first. Looks at all.
  template <class Visitor>
  void forget(uint64_t group, Visitor&& visit) {
    for (size_t i = 0; i < messages_.size() && kept_ != 0; ++i) {
      const Key key = messages_[i].key;
      if (messages_[i].bytes.empty() || key.group != group) continue;
      for (auto message = front(key); !message.empty(); message = front(key)) {
        visit(message);
        pop(key);
      }
    }
  }
  /// Calls visit(message) for all of them.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    for (const Bucket& bucket : buckets_) {
      for (uint32_t i = bucket.first; i != kEnd; i = messages_[i].next)
        visit(std::span<const std::byte>(messages_[i].bytes));
    }
  }

 private:
  static constexpr uint32_t kEnd = ~uint32_t{0};
  static constexpr size_t kBuckets = 64;
  struct Kept {
    Key key;
    std::vector<std::byte> bytes;  ///< none: the entry is free
    uint32_t next = kEnd;
  };
  struct Bucket {
    uint32_t first = kEnd, last = kEnd;
  };
  static size_t bucket_of(const Key& key) { return mix(key.group, key.sequence) % kBuckets; }
  /// Of the first message of a key, and the one before it in its bucket.
  struct Place {
    uint32_t index, before;
  };
  Place find(const Key& key) const;

  std::vector<Bucket> buckets_;  ///< none before the first message
  std::vector<Kept> messages_;
  uint32_t free_ = kEnd;  ///< first of the entries that hold nothing
  size_t kept_ = 0;
};

}  // namespace ibcoll
