#pragma once
/// Telling each other at start, where some may have nothing but an error to tell.

#include <algorithm>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/error_record.h"

namespace ibcoll {

/// What travels: a value, or that there is none.
template <class T>
struct ExchangeEnvelope {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  bool failed = false;
};

/// What exchange() holds for each rank that gives something.
template <class T>
constexpr size_t exchange_bytes_each_rank() {
  return sizeof(ExchangeEnvelope<T>) + sizeof(T);
}

/// Collective: an error that rank `failed` has, with its number, which the others do not know.
/// `transport`: what the ranks have failed to open; `mine` counts on that rank alone.
Error tell_error(Bootstrap& bootstrap, std::string_view transport, Rank failed, const Status& mine);

/// What all ranks make of the envelopes that have come, the i-th from rank giver_of(i).
template <class T, class GiverOf>
Result<std::vector<T>> open_envelopes(Bootstrap& bootstrap, std::string_view transport,
                                      const Result<T>& mine,
                                      const std::vector<ExchangeEnvelope<T>>& all,
                                      GiverOf&& giver_of) {
  const auto failed = std::find_if(all.begin(), all.end(),
                                   [](const ExchangeEnvelope<T>& one) { return one.failed; });
  if (failed != all.end()) {
    const Status status = mine ? Status() : tl::unexpected<Error>(mine.error());
    const Rank rank = giver_of(static_cast<size_t>(failed - all.begin()));
    return tl::unexpected<Error>(tell_error(bootstrap, transport, rank, status));
  }
  std::vector<T> values;
  values.reserve(all.size());
  for (const ExchangeEnvelope<T>& one : all) values.push_back(one.value);
  return values;
}

template <class T>
ExchangeEnvelope<T> envelope_of(const Result<T>& mine) {
  ExchangeEnvelope<T> own;
  if (mine) own.value = *mine;
  own.failed = !mine.has_value();
  return own;
}

/// Collective: every rank's value, or on all ranks alike the error of the first rank that has one,
/// with its number. `transport`: whose values they are.
template <class T>
Result<std::vector<T>> exchange(Bootstrap& bootstrap, std::string_view transport,
                                const Result<T>& mine) {
  const ExchangeEnvelope<T> own = envelope_of(mine);
  std::vector<ExchangeEnvelope<T>> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&own, sizeof own, all.data()));
  return open_envelopes(bootstrap, transport, mine, all,
                        [](size_t i) { return static_cast<Rank>(i); });
}

/// The same of `givers` alone, in ascending order and the same on all ranks: their values. What the
/// others have, be it an error, is not told.
template <class T>
Result<std::vector<T>> exchange_of(Bootstrap& bootstrap, std::string_view transport,
                                   std::span<const Rank> givers, const Result<T>& mine) {
  const ExchangeEnvelope<T> own = envelope_of(mine);
  std::vector<ExchangeEnvelope<T>> all(givers.size());
  IBCOLL_TRY(bootstrap.allgather_of(givers, &own, sizeof own, all.data()));
  return open_envelopes(bootstrap, transport, mine, all, [&](size_t i) { return givers[i]; });
}

}  // namespace ibcoll
