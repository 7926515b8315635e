#pragma once
/// Which memory ranks have told each other about: a region's key travels once a pair of ranks,
/// exposures name the region only.

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/execute/mail.h"
#include "engine/sharing/test_hooks.h"

namespace ibcoll {

/// This rank's regions. A registration keeps its slot while calls use it, and after that until the
/// slot is needed for another one; peers forget what a slot stood for when they are told the next.
class OwnRegions {
 public:
  /// Gives memory that begins at `base` a name; each is to be given back once.
  RegionName enter(const MemoryKey& key, const std::byte* base);
  void leave(RegionName name);

  const MemoryKey& key(RegionName name) const { return slots_[name.slot].key; }
  uint64_t base(RegionName name) const { return slots_[name.slot].base; }

  /// Those who receive an exposure, by numbers of the group's that all of its exposures use alike.
  struct Receivers {
    uint64_t group = 0;
    uint32_t number = 0;
  };
  bool told(RegionName name, const Receivers& to) const;
  void note_told(RegionName name, const Receivers& to);

  /// Registrations that are remembered while no call uses them: so many, or as many as were in use
  /// at once.
  IBCOLL_LIMIT(size_t, kRemembered, 64);

 private:
  /// The groups whose members know of a slot, as far as that is remembered.
  static constexpr size_t kGroups = 4;
  struct Told {
    uint64_t group = 0;
    std::vector<uint64_t> numbers;  ///< a bitmap
  };
  struct Slot {
    MemoryKey key;
    uint64_t base = 0;
    uint32_t use = 0;
    uint32_t users = 0;
    uint32_t older = kNone, newer = kNone;  ///< in the chain of those that nobody uses
    uint32_t next_told = 0;                 ///< the group that gives way
    std::array<Told, kGroups> told;
  };
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t take_slot(uint64_t registration);
  void append(uint32_t slot);
  void unchain(uint32_t slot);

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::unordered_map<uint64_t, uint32_t> slot_of_;  ///< by registration
  uint32_t oldest_ = kNone, newest_ = kNone;
  size_t resting_ = 0;
};

/// The regions of other ranks. It grows with the slots of their tables: those of the registrations
/// that a peer has used at once, and OwnRegions::kRemembered.
class PeerRegions {
 public:
  /// The address of a place is not known.
  static constexpr uint64_t kUnknown = ~uint64_t{0};

  /// A rank of the job has told where a region of its lies and what its key is.
  Status learn(NetworkTransport& network, Rank peer, const RegionKey& region,
               std::span<const std::byte> packed);
  /// The peer has died: forgets its regions.
  void lose(NetworkTransport& network, Rank peer);
  /// What a region takes that a peer has told of, with its place in the table.
  static constexpr size_t bytes_each() {
    return sizeof(std::pair<const uint64_t, Region>) + 2 * sizeof(void*);
  }

  /// Where a put to a place goes; its address is kUnknown if the region is not known. Nowhere is
  /// address 0: nothing is put there.
  RemoteAddress find(Rank peer, const RegionPlace& place) const;

 private:
  struct Region {
    uint32_t use = 0;
    uint64_t base = 0, key = 0;
  };
  static uint64_t name(Rank peer, uint32_t slot) {
    return static_cast<uint64_t>(peer) << 32 | slot;
  }

  std::unordered_map<uint64_t, Region> regions_;
};

}  // namespace ibcoll
