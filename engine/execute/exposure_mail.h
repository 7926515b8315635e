#pragma once
/// Writes the mails that make up an exposure.

#include <array>
#include <cstring>
#include <span>

#include "engine/execute/regions.h"
#include "engine/execute/remote_state.h"

namespace ibcoll {

/// One mail: head, the keys that its receivers have not been told, landings.
class ExposureMail {
 public:
  ExposureMail(std::span<std::byte> memory, OwnRegions& regions, const NetworkTransport& network,
               const OwnRegions::Receivers& to)
      : memory_(memory), regions_(regions), network_(network), to_(to), back_(memory.size()) {}

  /// How the receivers know an address in registered memory; the region's key goes along if they
  /// don't know it. None: no room for the key.
  std::optional<RegionPlace> place_of(const RegisteredMemory& memory, const std::byte* address);
  /// False: no room.
  bool add(Landing landing, const RegisteredMemory& memory, const std::byte* address);
  /// The whole mail; fills in the numbers of keys and landings.
  std::span<const std::byte> finish(const MailHeader& header, Exposure exposure);
  size_t landings() const { return landings_; }
  /// The mail is on its way: its receivers know its keys from now on.
  void note_sent();

 private:
  static constexpr size_t kHeadBytes = sizeof(MailHeader) + sizeof(Exposure);
  static constexpr size_t kMostKeys =
      (NetworkTransport::kMaxMailBytes - kHeadBytes) / sizeof(RegionKey);
  bool knows(RegionName region) const;
  bool add_key(const RegisteredMemory& memory);

  std::span<std::byte> memory_;
  OwnRegions& regions_;
  const NetworkTransport& network_;
  OwnRegions::Receivers to_;
  // Keys grow from the front, landings from the back until the mail is finished.
  size_t front_ = kHeadBytes, back_;
  uint16_t keys_ = 0, landings_ = 0;
  /// Left as it is found: it is written as far as keys_ goes.
  struct Told {
    uint32_t slot, use;
  };
  std::array<Told, kMostKeys> told_;
};

/// Calls visit(key, packed) for the keys of an exposure's mail; gives where its landings begin.
template <class Visitor>
size_t for_each_key(std::span<const std::byte> mail, Visitor&& visit) {
  Exposure exposure;
  std::memcpy(&exposure, mail.data() + sizeof(MailHeader), sizeof(exposure));
  size_t at = sizeof(MailHeader) + sizeof(exposure);
  for (uint16_t i = 0; i < exposure.keys; ++i) {
    RegionKey key;
    std::memcpy(&key, mail.data() + at, sizeof(key));
    visit(key, mail.subspan(at + sizeof(key), key.bytes));
    at += sizeof(key) + (key.bytes + 7) / 8 * 8;
  }
  return at;
}

}  // namespace ibcoll
