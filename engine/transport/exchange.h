#pragma once
/// Telling each other at start, where some may have nothing but an error to tell.

#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// What travels: a value, or why there is none.
template <class T>
struct ExchangeEnvelope {
  static_assert(std::is_trivially_copyable_v<T>);
  ErrorCode code{};
  char error[400] = "";  ///< empty: all is well
  T value{};
};

/// What exchange() holds for each rank of the job.
template <class T>
constexpr size_t exchange_bytes_each_rank() {
  return sizeof(ExchangeEnvelope<T>) + sizeof(T);
}

/// Collective: every rank's value, or on all ranks alike the error of the first rank that has one,
/// with its number. `transport`: whose values they are.
template <class T>
Result<std::vector<T>> exchange(Bootstrap& bootstrap, std::string_view transport,
                                const Result<T>& mine) {
  using Envelope = ExchangeEnvelope<T>;
  Envelope own;
  if (mine) {
    own.value = *mine;
  } else {
    own.code = mine.error().code;
    mine.error().message.copy(own.error, sizeof own.error - 1);
  }
  std::vector<Envelope> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&own, sizeof own, all.data()));
  std::vector<T> values;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].error[0] != '\0') {
      return fail(all[rank].code, "no {} transport: rank {}: {}", transport, rank, all[rank].error);
    }
    values.push_back(all[rank].value);
  }
  return values;
}

}  // namespace ibcoll
