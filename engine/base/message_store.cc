#include "engine/base/message_store.h"

namespace ibcoll {
namespace {

/// Memory of a larger message goes back at once: one burst shall not stay for ever.
constexpr size_t kKeptCapacity = 512;

}  // namespace

void MessageStore::keep(const Key& key, std::span<const std::byte> message,
                        std::span<const std::byte> rest) {
  if (buckets_.empty()) buckets_.resize(kBuckets);
  uint32_t index = free_;
  if (index == kEnd) {
    index = static_cast<uint32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    free_ = messages_[index].next;
  }
  Kept& kept = messages_[index];
  kept.key = key;
  kept.bytes.reserve(message.size() + rest.size());
  kept.bytes.assign(message.begin(), message.end());
  kept.bytes.insert(kept.bytes.end(), rest.begin(), rest.end());
  kept.next = kEnd;
  Bucket& bucket = buckets_[bucket_of(key)];
  (bucket.first == kEnd ? bucket.first : messages_[bucket.last].next) = index;
  bucket.last = index;
  ++kept_;
}

MessageStore::Place MessageStore::find(const Key& key) const {
  Place place{kEnd, kEnd};
  if (kept_ == 0) return place;
  for (place.index = buckets_[bucket_of(key)].first;
       place.index != kEnd && !(messages_[place.index].key == key);
       place.index = messages_[place.index].next) {
    place.before = place.index;
  }
  return place;
}

std::span<const std::byte> MessageStore::front(const Key& key) const {
  const Place place = find(key);
  return place.index == kEnd ? std::span<const std::byte>() : messages_[place.index].bytes;
}

void MessageStore::pop(const Key& key) {
  const Place place = find(key);
  Kept& kept = messages_[place.index];
  Bucket& bucket = buckets_[bucket_of(key)];
  (place.before == kEnd ? bucket.first : messages_[place.before].next) = kept.next;
  if (bucket.last == place.index) bucket.last = place.before;
  kept.bytes.clear();
  if (kept.bytes.capacity() > kKeptCapacity) kept.bytes.shrink_to_fit();
  kept.next = free_;
  free_ = place.index;
  --kept_;
}

}  // namespace ibcoll
