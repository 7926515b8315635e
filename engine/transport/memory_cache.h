#pragma once
/// Registrations of memory, kept for the next use of the same buffer. A buffer that is unmapped
/// loses its registration before the next one is handed out; where unmapping can't be noticed
/// (UnmapWatch) nothing is kept.

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/result.h"
#include "engine/transport/transport.h"
#include "engine/transport/unmap_watch.h"

namespace ibcoll {

/// MemoryKey::remote of memory that peers may not write to.
inline constexpr uint64_t kNoRemoteKey = ~uint64_t{0};

/// What registers memory with a network.
class Registrar {
 public:
  struct Region {
    MemoryKey key;          ///< but its registration; `local` tells it from all others there are
    uint64_t handle = 0;    ///< the registrar's own
    bool writable = false;  ///< by peers
  };
  struct Refusal {
    Error error;
    bool full = false;  ///< less registered memory might help
  };
  virtual ~Registrar() = default;
  /// Memory that may only be read (constants) may be registered for reading by this rank only.
  virtual tl::expected<Region, Refusal> enter(void* base, size_t bytes) = 0;
  virtual void remove(const Region& region) = 0;
};

class MemoryCache {
 public:
  /// `kept`: registrations not in use that are remembered at most, least recently used go first.
  MemoryCache(Registrar& registrar, size_t kept);
  ~MemoryCache();
  MemoryCache(const MemoryCache&) = delete;
  MemoryCache& operator=(const MemoryCache&) = delete;

  /// Each success is to be given back once. `spare`: what is kept for later uses is not given up
  /// for it.
  Result<MemoryKey> acquire(void* base, size_t bytes, bool spare = false);
  void release(const MemoryKey& key);

  /// What is registered under a local key; null: nothing.
  const Registrar::Region* find(uint64_t local_key) const;
  /// Whether peers may write to all of [address, address + bytes) by the region of that local key.
  bool covers(uint64_t local_key, uint64_t address, uint64_t bytes) const;

  /// Why nothing is kept that should be; empty: it is.
  std::string why_nothing_is_kept() const;

  /// How often memory was registered.
  uint64_t registrations() const { return registrations_; }

 private:
  struct Entry {
    AddressRange range;
    Registrar::Region region;
    uint32_t users = 0;
    bool stale = false;  ///< (partly) unmapped: not handed out again
    std::list<Entry*>::iterator unused;
  };
  using Entries = std::multimap<uintptr_t, std::unique_ptr<Entry>>;

  Entry* find(AddressRange range);
  void forget_unmapped();
  void drop(Entry* entry);
  void trim(size_t kept);

  Registrar& registrar_;
  size_t kept_;
  std::unique_ptr<UnmapWatch> watch_;
  bool unwatched_ = false;  ///< kept_ is 0 for want of a watch
  Entries entries_;         ///< by first address
  size_t longest_ = 0;
  std::unordered_map<uint64_t, Entry*> by_key_;
  std::list<Entry*> unused_;  ///< least recently used first
  std::vector<AddressRange> unmapped_;
  uint64_t registrations_ = 0;
};

}  // namespace ibcoll
