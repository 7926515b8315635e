#include "engine/bootstrap/first_failure.h"

#include <sched.h>

#include <algorithm>
#include <string_view>

#include "engine/base/quote.h"

namespace ibcoll {

void FailureText::fill(const Failure& failure) {
  culprit = failure.culprit;
  code = static_cast<int32_t>(failure.code);
  const std::string_view what = cut_to(failure.what, Failure::kMaxText);
  std::copy(what.begin(), what.end(), text);
  text[what.size()] = '\0';
}

Failure FailureText::read() const {
  return {culprit, static_cast<ErrorCode>(code), std::string(text)};
}

bool FirstFailure::tell(Place* places, uint32_t writer, const Failure& failure) {
  Place& place = places[writer];
  while (place.taken.exchange(true, std::memory_order_acquire)) sched_yield();
  uint32_t none = 0;
  bool first = false;
  if (!present()) {  // otherwise this may be the place that counts
    place.text.fill(failure);
    first = writer_.compare_exchange_strong(none, writer + 1, std::memory_order_acq_rel);
  }
  place.taken.store(false, std::memory_order_release);
  return first;
}

std::optional<Failure> FirstFailure::read(const Place* places) const {
  const uint32_t writer = writer_.load(std::memory_order_acquire);
  if (writer == 0) return std::nullopt;
  return places[writer - 1].text.read();
}

}  // namespace ibcoll
