#include "engine/execute/exposure_mail.h"

#include <algorithm>

namespace ibcoll {

bool ExposureMail::knows(RegionName region) const {
  if (regions_.told(region, to_)) return true;
  return std::any_of(told_.begin(), told_.begin() + keys_, [region](const Told& told) {
    return told.slot == region.slot && told.use == region.use;
  });
}

bool ExposureMail::add_key(const RegisteredMemory& memory) {
  std::array<std::byte, NetworkTransport::kMaxKeyBytes> packed;
  const size_t bytes = network_.pack_key(memory.key, packed);
  const size_t filled = (bytes + 7) / 8 * 8;
  if (back_ - front_ < sizeof(RegionKey) + filled) return false;
  const RegionKey key{memory.region, regions_.base(memory.region), static_cast<uint32_t>(bytes)};
  std::memcpy(memory_.data() + front_, &key, sizeof(key));
  std::memcpy(memory_.data() + front_ + sizeof(key), packed.data(), bytes);
  std::memset(memory_.data() + front_ + sizeof(key) + bytes, 0, filled - bytes);
  front_ += sizeof(key) + filled;
  told_[keys_++] = {memory.region.slot, memory.region.use};
  return true;
}

std::optional<RegionPlace> ExposureMail::place_of(const RegisteredMemory& memory,
                                                  const std::byte* address) {
  if (memory.region.slot == RegionName::kNowhere) return RegionPlace{};
  if (!knows(memory.region) && !add_key(memory)) return std::nullopt;
  // Wraps around where the region was first entered further up.
  return RegionPlace{memory.region,
                     reinterpret_cast<uint64_t>(address) - regions_.base(memory.region)};
}

bool ExposureMail::add(Landing landing, const RegisteredMemory& memory, const std::byte* address) {
  if (back_ - front_ < sizeof(landing)) return false;
  back_ -= sizeof(landing);
  const std::optional<RegionPlace> place = place_of(memory, address);
  if (!place) {
    back_ += sizeof(landing);
    return false;
  }
  landing.place = *place;
  std::memcpy(memory_.data() + back_, &landing, sizeof(landing));
  ++landings_;
  return true;
}

std::span<const std::byte> ExposureMail::finish(const MailHeader& header, Exposure exposure) {
  exposure.keys = keys_;
  exposure.landings = landings_;
  std::memcpy(memory_.data(), &header, sizeof(header));
  std::memcpy(memory_.data() + sizeof(header), &exposure, sizeof(exposure));
  // They were written back to front.
  for (size_t i = 0; i < landings_ / 2u; ++i) {
    std::byte* const low = memory_.data() + back_ + i * sizeof(Landing);
    std::byte* const high = memory_.data() + back_ + (landings_ - 1 - i) * sizeof(Landing);
    std::swap_ranges(low, low + sizeof(Landing), high);
  }
  std::memmove(memory_.data() + front_, memory_.data() + back_, memory_.size() - back_);
  return memory_.first(front_ + memory_.size() - back_);
}

void ExposureMail::note_sent() {
  for (uint16_t i = 0; i < keys_; ++i) regions_.note_told({told_[i].slot, told_[i].use}, to_);
}

}  // namespace ibcoll
