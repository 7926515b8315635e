#include "engine/base/message_store.h"

#include <algorithm>
#include <utility>

#include "engine/base/memory_item.h"

namespace ibcoll {
namespace {

/// Memory of a larger message goes back at once: one burst shall not stay for ever.
constexpr size_t kKeptCapacity = 512;

}  // namespace

size_t MessageStore::bytes_for(size_t messages, size_t bytes_each) {
  return grown(messages) * sizeof(Kept) + messages * allocated(bytes_each);
}

void MessageStore::keep(const Key& key, std::span<const std::byte> message,
                        std::span<const std::byte> rest) {
  uint32_t index = free_message_;
  if (index == kEnd) {
    index = static_cast<uint32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    free_message_ = messages_[index].next;
  }
  Kept& kept = messages_[index];
  kept.bytes.reserve(message.size() + rest.size());
  kept.bytes.assign(message.begin(), message.end());
  kept.bytes.insert(kept.bytes.end(), rest.begin(), rest.end());
  kept.next = kEnd;
  uint32_t at = find(key);
  if (at == kEnd) at = add_queue(key);
  Queue& queue = queues_[at];
  (queue.first == kEnd ? queue.first : messages_[queue.last].next) = index;
  queue.last = index;
  ++kept_;
  bytes_ += kept.bytes.size();
}

/// Of a key; kEnd: nothing of it is kept.
uint32_t MessageStore::find(const Key& key) const {
  if (kept_ == 0) return kEnd;
  uint32_t queue = buckets_[place(key)];
  while (queue != kEnd && !(queues_[queue].key == key)) queue = queues_[queue].next;
  return queue;
}

uint32_t MessageStore::add_queue(const Key& key) {
  if (keys_ == buckets_.size()) {
    buckets_.assign(std::max(kFewestBuckets, 2 * buckets_.size()), kEnd);
    for (uint32_t i = 0; i < queues_.size(); ++i) {
      if (queues_[i].first == kEnd) continue;
      queues_[i].next = std::exchange(bucket(queues_[i].key), i);
    }
  }
  uint32_t index = free_queue_;
  if (index == kEnd) {
    index = static_cast<uint32_t>(queues_.size());
    queues_.emplace_back();
  } else {
    free_queue_ = queues_[index].next;
  }
  queues_[index] = {key, kEnd, kEnd, std::exchange(bucket(key), index)};
  ++keys_;
  return index;
}

std::span<const std::byte> MessageStore::front(const Key& key) const {
  const uint32_t queue = find(key);
  return queue == kEnd ? std::span<const std::byte>() : messages_[queues_[queue].first].bytes;
}

void MessageStore::pop(const Key& key) { pop_from(find(key)); }

void MessageStore::pop_from(uint32_t at) {
  Queue& queue = queues_[at];
  const uint32_t index = queue.first;
  Kept& kept = messages_[index];
  queue.first = kept.next;
  bytes_ -= kept.bytes.size();
  kept.bytes.clear();
  if (kept.bytes.capacity() > kKeptCapacity) kept.bytes.shrink_to_fit();
  kept.next = free_message_;
  free_message_ = index;
  --kept_;
  if (queue.first != kEnd) return;
  uint32_t* link = &bucket(queue.key);
  while (*link != at) link = &queues_[*link].next;
  *link = queue.next;
  queue.next = free_queue_;
  free_queue_ = at;
  --keys_;
}

size_t MessageStore::longest_walk() const {
  size_t longest = 0;
  for (uint32_t queue : buckets_) {
    size_t walk = 0;
    for (; queue != kEnd; queue = queues_[queue].next) ++walk;
    longest = std::max(longest, walk);
  }
  return longest;
}

}  // namespace ibcoll
