#pragma once
/// Telling each other at start, where some may have nothing but an error to tell.

#include <algorithm>
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

/// What exchange() holds for each rank of the job.
template <class T>
constexpr size_t exchange_bytes_each_rank() {
  return sizeof(ExchangeEnvelope<T>) + sizeof(T);
}

/// The error of the first rank that has one, with its number. `transport`: what the ranks have
/// failed to open.
Error first_error(std::string_view transport, const std::vector<Status>& of_ranks);

/// Collective: every rank's value, or on all ranks alike the error of the first rank that has one,
/// with its number. `transport`: whose values they are.
template <class T>
Result<std::vector<T>> exchange(Bootstrap& bootstrap, std::string_view transport,
                                const Result<T>& mine) {
  using Envelope = ExchangeEnvelope<T>;
  Envelope own;
  if (mine) own.value = *mine;
  own.failed = !mine.has_value();
  std::vector<Envelope> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&own, sizeof own, all.data()));
  if (std::any_of(all.begin(), all.end(), [](const Envelope& one) { return one.failed; })) {
    const Status status = mine ? Status() : tl::unexpected<Error>(mine.error());
    IBCOLL_ASSIGN(const std::vector<Status> statuses, exchange_errors(bootstrap, status));
    return tl::unexpected<Error>(first_error(transport, statuses));
  }
  std::vector<T> values;
  values.reserve(all.size());
  for (const Envelope& one : all) values.push_back(one.value);
  return values;
}

}  // namespace ibcoll
