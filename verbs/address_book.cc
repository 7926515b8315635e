#include "verbs/address_book.h"

#include <array>
#include <map>

namespace ibcoll::verbs {

AddressBook::AddressBook(const std::vector<Offer>& offers, const std::vector<RankPorts>& ranks,
                         std::vector<RankAddress> addresses)
    : addresses_(std::move(addresses)) {
  constexpr uint32_t kNone = UINT32_MAX;
  names_ = {"a port"};  // more than 16 bits can tell apart
  std::map<std::string_view, uint16_t> numbers;
  const auto number_of = [&](std::string_view name) {
    if (const auto known = numbers.find(name); known != numbers.end()) return known->second;
    if (names_.size() > UINT16_MAX) return uint16_t{0};
    const auto number = static_cast<uint16_t>(names_.size());
    names_.emplace_back(name);
    return numbers[name] = number;
  };
  std::array<uint32_t, kMaxPorts> none{};
  none.fill(kNone);
  std::vector<std::array<uint32_t, kMaxPorts>> known(offers.size(), none);
  for (size_t rank = 0; rank < addresses_.size(); ++rank) {
    const auto offer = static_cast<size_t>(ranks[rank].offer);
    RankAddress& address = addresses_[rank];
    uint32_t& number = known[offer][address.port];
    if (number == kNone) {
      number = static_cast<uint32_t>(ports_.size());
      const PortOffer& offered = offers[offer].ports[address.port];
      ports_.push_back({offered.address, number_of(offered.name)});
    }
    address.port = number & 0xfffff;
  }
  ports_.shrink_to_fit();
}

}  // namespace ibcoll::verbs
