#include "engine/transport/memory_cache.h"

#include <algorithm>

namespace ibcoll {

MemoryCache::MemoryCache(Registrar& registrar, size_t kept)
    : registrar_(registrar), kept_(kept), watch_(kept == 0 ? nullptr : UnmapWatch::create()) {
  unwatched_ = kept != 0 && !watch_;
  if (!watch_) kept_ = 0;
}

std::string MemoryCache::why_nothing_is_kept() const {
  if (!unwatched_) return {};
  const std::string missing = UnmapWatch::missing();
  return missing.empty() ? "UCX's memory hooks refuse to tell" : missing;
}

MemoryCache::~MemoryCache() {
  for (const auto& [begin, entry] : entries_) registrar_.remove(entry->region);
}

const Registrar::Region* MemoryCache::find(uint64_t local_key) const {
  const auto found = by_key_.find(local_key);
  return found == by_key_.end() ? nullptr : &found->second->region;
}

bool MemoryCache::covers(uint64_t local_key, uint64_t address, uint64_t bytes) const {
  const auto found = by_key_.find(local_key);
  if (found == by_key_.end() || !found->second->region.writable) return false;
  const AddressRange& range = found->second->range;
  return address >= range.begin && address <= range.end && bytes <= range.end - address;
}

MemoryCache::Entry* MemoryCache::find(AddressRange range) {
  // An entry that contains the range begins at most longest_ bytes before its end.
  for (auto it = entries_.upper_bound(range.begin); it != entries_.begin();) {
    --it;
    Entry* entry = it->second.get();
    const bool same = it->first == range.begin && entry->range.end == range.end;
    // What was registered around it may be constant, or have been mapped anew where nobody notices.
    const bool serves = same || (watch_ && entry->region.writable && entry->range.end >= range.end);
    if (!entry->stale && serves) return entry;
    if (it->first + longest_ < range.end) return nullptr;
  }
  return nullptr;
}

Result<MemoryKey> MemoryCache::acquire(void* base, size_t bytes, bool spare) {
  if (watch_ && watch_->any()) forget_unmapped();
  const auto begin = reinterpret_cast<uintptr_t>(base);
  const AddressRange range{begin, begin + bytes};
  Entry* entry = find(range);
  if (entry && entry->users++ == 0) unused_.erase(entry->unused);
  if (!entry) {
    auto fresh = std::make_unique<Entry>();
    fresh->range = range;
    auto region = registrar_.enter(base, bytes);
    if (!region && region.error().full && !unused_.empty() && !spare) {
      trim(0);  // what is only kept may be what fills the limit
      region = registrar_.enter(base, bytes);
    }
    if (!region) return tl::unexpected<Error>(region.error().error);
    fresh->region = *region;
    if (!region->writable) fresh->region.key.remote = kNoRemoteKey;
    ++registrations_;
    if (kept_ != 0) fresh->region.key.registration = registrations_;
    fresh->users = 1;
    entry = fresh.get();
    by_key_.emplace(entry->region.key.local, entry);
    entries_.emplace(begin, std::move(fresh));
    longest_ = std::max(longest_, bytes);
  }
  return entry->region.key;
}

void MemoryCache::release(const MemoryKey& key) {
  const auto found = by_key_.find(key.local);
  if (found == by_key_.end()) return;
  Entry* entry = found->second;
  if (--entry->users > 0) return;
  if (entry->stale || kept_ == 0) {
    drop(entry);
    return;
  }
  entry->unused = unused_.insert(unused_.end(), entry);
  trim(kept_);
}

void MemoryCache::trim(size_t kept) {
  while (unused_.size() > kept) {
    Entry* oldest = unused_.front();
    unused_.pop_front();
    drop(oldest);
  }
}

/// Removes an entry nobody uses and that is not on the unused list.
void MemoryCache::drop(Entry* entry) {
  registrar_.remove(entry->region);
  by_key_.erase(entry->region.key.local);
  const auto [first, last] = entries_.equal_range(entry->range.begin);
  entries_.erase(
      std::find_if(first, last, [entry](const auto& item) { return item.second.get() == entry; }));
  if (entries_.empty()) longest_ = 0;
}

void MemoryCache::forget_unmapped() {
  const bool all_known = watch_->take(unmapped_);
  std::vector<Entry*> gone;
  for (const auto& [begin, entry] : entries_) {
    const AddressRange& range = entry->range;
    const bool hit = !all_known ||
                     std::any_of(unmapped_.begin(), unmapped_.end(), [&](const AddressRange& lost) {
                       return lost.begin < range.end && range.begin < lost.end;
                     });
    if (hit && !entry->stale) {
      entry->stale = true;
      if (entry->users == 0) gone.push_back(entry.get());
    }
  }
  for (Entry* entry : gone) {
    unused_.erase(entry->unused);
    drop(entry);
  }
}

}  // namespace ibcoll
