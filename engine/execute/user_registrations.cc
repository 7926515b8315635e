#include "engine/execute/user_registrations.h"

#include <algorithm>

namespace ibcoll {

Status UserRegistrations::add(UserRegistration& registration) {
  if (registration.bytes == 0) return {};
  const auto after = std::upper_bound(
      rows_.begin(), rows_.end(), registration.begin,
      [](const std::byte* begin, const Row& row) { return begin < row.registration->begin; });
  const auto row = rows_.insert(after, {&registration, nullptr});
  find_widest(static_cast<size_t>(row - rows_.begin()));
  if (network_ == nullptr) return {};
  IBCOLL_ASSIGN(registration.key,
                network_->register_memory(registration.begin, registration.bytes));
  // Used from now on, so that its key is not told again after each call.
  registration.region = regions_.enter(*registration.key, registration.begin);
  return {};
}

void UserRegistrations::remove(UserRegistration& registration) {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& each) {
    return each.registration == &registration;
  });
  if (row != rows_.end()) find_widest(static_cast<size_t>(rows_.erase(row) - rows_.begin()));
  if (registration.region.slot != RegionName::kNowhere) regions_.leave(registration.region);
  if (registration.key) network_->deregister_memory(*registration.key);
  registration.region = {};
  registration.key.reset();
}

/// Of those that begin below an address, the one that ends last.
UserRegistration* UserRegistrations::widest_before(const std::byte* address) const {
  const auto after = std::lower_bound(
      rows_.begin(), rows_.end(), address,
      [](const Row& row, const std::byte* limit) { return row.registration->begin < limit; });
  return after == rows_.begin() ? nullptr : std::prev(after)->widest;
}

void UserRegistrations::find_widest(size_t from) {
  for (size_t i = from; i < rows_.size(); ++i) {
    UserRegistration* const before = i == 0 ? nullptr : rows_[i - 1].widest;
    UserRegistration* const own = rows_[i].registration;
    rows_[i].widest = before != nullptr && before->end() >= own->end() ? before : own;
  }
}

}  // namespace ibcoll
