#pragma once
/// Short names of long values, by which ranks tell who has the same: 128 bits of XXH3 (libxxhash),
/// which no two values of a job share by chance.

#include <compare>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace ibcoll {

/// All zero: of nothing.
struct Digest {
  uint64_t low = 0, high = 0;
  auto operator<=>(const Digest&) const = default;
  bool empty() const { return *this == Digest{}; }
};

/// Never empty.
Digest digest_of(std::span<const std::byte> bytes);

/// Of the bytes of a value, which must have none that are not part of its members.
template <class T>
Digest digest_of_value(const T& value) {
  static_assert(std::has_unique_object_representations_v<T>);
  return digest_of(std::as_bytes(std::span(&value, 1)));
}

/// Values of which many are the same.
struct DistinctNumbers {
  /// Of each value: a number that it shares with its equals alone, from 0 on, in the order of their
  /// first ones.
  std::vector<int32_t> numbers;
  std::vector<int32_t> firsts;  ///< of each number: the first that has it
};
DistinctNumbers number_distinct(std::span<const Digest> digests);

}  // namespace ibcoll
