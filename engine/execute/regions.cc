#include "engine/execute/regions.h"

#include <algorithm>

namespace ibcoll {

RegionName OwnRegions::enter(const MemoryKey& key, const std::byte* base) {
  uint32_t slot = kNone;
  if (key.registration != 0) {
    if (const auto known = slot_of_.find(key.registration); known != slot_of_.end())
      slot = known->second;
  }
  if (slot != kNone) {
    // The same registration serves any part of its memory: places are told from where it was first
    // entered.
    if (slots_[slot].users++ == 0) unchain(slot);
    return {slot, slots_[slot].use};
  }
  slot = take_slot(key.registration);
  Slot& taken = slots_[slot];
  taken.key = key;
  taken.base = reinterpret_cast<uint64_t>(base);
  taken.users = 1;
  ++taken.use;
  for (Told& told : taken.told) {
    told.group = 0;
    told.numbers.clear();
  }
  return {slot, taken.use};
}

/// A slot that stands for nothing; known by `registration` from now on unless that is 0.
uint32_t OwnRegions::take_slot(uint64_t registration) {
  uint32_t slot = kNone;
  if (resting_ >= kRemembered && (registration != 0 || free_.empty())) {
    slot = oldest_;
    unchain(slot);
    auto entry = slot_of_.extract(slots_[slot].key.registration);
    if (registration != 0) {
      entry.key() = registration;
      slot_of_.insert(std::move(entry));
      return slot;
    }
  } else if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
    free_.reserve(slots_.capacity());
  }
  if (registration != 0) slot_of_.emplace(registration, slot);
  return slot;
}

void OwnRegions::leave(RegionName name) {
  Slot& slot = slots_[name.slot];
  if (--slot.users != 0) return;
  if (slot.key.registration == 0) {
    free_.push_back(name.slot);
  } else {
    append(name.slot);
  }
}

void OwnRegions::append(uint32_t index) {
  Slot& slot = slots_[index];
  slot.older = newest_;
  slot.newer = kNone;
  (newest_ == kNone ? oldest_ : slots_[newest_].newer) = index;
  newest_ = index;
  ++resting_;
}

void OwnRegions::unchain(uint32_t index) {
  const Slot& slot = slots_[index];
  (slot.older == kNone ? oldest_ : slots_[slot.older].newer) = slot.newer;
  (slot.newer == kNone ? newest_ : slots_[slot.newer].older) = slot.older;
  --resting_;
}

bool OwnRegions::told(RegionName name, const Receivers& to) const {
  for (const Told& told : slots_[name.slot].told) {
    if (told.group != to.group) continue;
    const size_t word = to.number / 64;
    return word < told.numbers.size() && (told.numbers[word] >> to.number % 64 & 1) != 0;
  }
  return false;
}

void OwnRegions::note_told(RegionName name, const Receivers& to) {
  Slot& slot = slots_[name.slot];
  auto told = std::find_if(slot.told.begin(), slot.told.end(),
                           [&](const Told& each) { return each.group == to.group; });
  if (told == slot.told.end()) {
    told = slot.told.begin() + slot.next_told++ % kGroups;
    told->group = to.group;
    told->numbers.clear();
  }
  const size_t word = to.number / 64;
  if (word >= told->numbers.size()) told->numbers.resize(word + 1);
  told->numbers[word] |= uint64_t{1} << to.number % 64;
}

Status PeerRegions::learn(NetworkTransport& network, Rank peer, const RegionKey& told,
                          std::span<const std::byte> packed) {
  const auto [place, added] = regions_.try_emplace(name(peer, told.region.slot));
  Region& region = place->second;
  // Told by another group, or late: an exposure that this rank has no use for may come when the
  // call it belongs to has ended, but not much later.
  constexpr uint32_t kLate = 1u << 24;
  if (!added && region.use - told.region.use < kLate) return {};
  if (!added) network.release_key(peer, region.key);
  const Result<uint64_t> key = network.unpack_key(peer, packed);
  if (!key) {
    regions_.erase(place);  // nothing may be put there before the job ends
    return tl::unexpected<Error>(key.error());
  }
  region = {told.region.use, told.base, *key};
  return {};
}

void PeerRegions::lose(NetworkTransport& network, Rank peer) {
  std::erase_if(regions_, [&](const auto& region) {
    if (region.first >> 32 != static_cast<uint64_t>(peer)) return false;
    network.release_key(peer, region.second.key);
    return true;
  });
}

RemoteAddress PeerRegions::find(Rank peer, const RegionPlace& place) const {
  if (place.region.slot == RegionName::kNowhere) return {place.offset, 0};
  const auto found = regions_.find(name(peer, place.region.slot));
  if (found == regions_.end() || found->second.use != place.region.use) return {kUnknown, 0};
  return {found->second.base + place.offset, found->second.key};
}

}  // namespace ibcoll
