#include "verbs/address_book.h"

#include <array>
#include <cstring>

namespace ibcoll::verbs {

AddressBook::AddressBook(const std::vector<Offer>& offers, const std::vector<RankPorts>& ranks,
                         std::vector<RankAddress> addresses)
    : addresses_(std::move(addresses)) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::array<uint32_t, kMaxPorts> none{};
  none.fill(kNone);
  std::vector<std::array<uint32_t, kMaxPorts>> known(offers.size(), none);
  for (size_t rank = 0; rank < addresses_.size(); ++rank) {
    const auto offer = static_cast<size_t>(ranks[rank].offer);
    uint32_t& port = addresses_[rank].port;
    uint32_t& number = known[offer][port];
    if (number == kNone) {
      number = static_cast<uint32_t>(ports_.size());
      const PortOffer& offered = offers[offer].ports[port];
      Port& entry = ports_.emplace_back();
      entry.address = offered.address;
      std::memcpy(entry.name, offered.name, sizeof entry.name);
    }
    port = number;
  }
  ports_.shrink_to_fit();
}

}  // namespace ibcoll::verbs
