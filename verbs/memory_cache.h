#pragma once
/// Registrations of memory, kept for the next use of the same buffer. A buffer that is unmapped
/// loses its registration before the next one is handed out; where unmapping can't be noticed
/// (UnmapWatch) nothing is kept.

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/base/result.h"
#include "engine/transport/transport.h"
#include "verbs/device.h"
#include "verbs/unmap_watch.h"

namespace ibcoll::verbs {

class MemoryCache {
 public:
  /// `kept`: registrations not in use that are remembered at most, least recently used go first.
  MemoryCache(const Device& device, size_t kept);

  /// Memory that may only be read (constants) is registered for reading by this rank only. Each
  /// success is to be given back once. `spare`: what is kept for later uses is not given up for it.
  Result<MemoryKey> acquire(void* base, size_t bytes, bool spare = false);
  void release(const MemoryKey& key);

  /// How often the device was asked to register.
  uint64_t registrations() const { return registrations_; }

 private:
  struct Entry {
    AddressRange range;
    MemoryHandle region;
    uint64_t number = 0;  ///< MemoryKey::registration
    uint32_t users = 0;
    bool stale = false;     ///< (partly) unmapped: not handed out again
    bool writable = false;  ///< by peers
    std::list<Entry*>::iterator unused;
  };
  using Entries = std::multimap<uintptr_t, std::unique_ptr<Entry>>;

  Entry* find(AddressRange range);
  void forget_unmapped();
  void drop(Entry* entry);
  void trim(size_t kept);

  const Device& device_;
  size_t kept_;
  std::unique_ptr<UnmapWatch> watch_;
  Entries entries_;  ///< by first address
  size_t longest_ = 0;
  std::unordered_map<uint64_t, Entry*> by_key_;
  std::list<Entry*> unused_;  ///< least recently used first
  std::vector<AddressRange> unmapped_;
  uint64_t registrations_ = 0;
};

}  // namespace ibcoll::verbs
