#pragma once
/// Values with an index: MINLOC and MAXLOC. A part of reduction_loops.h; see there.

#include "engine/execute/reduction_vectors.h"

namespace ibcoll {
namespace {

struct Lower {
  template <class T>
  static auto before(T a, T b) {
    return a < b;
  }
};
struct Higher {
  template <class T>
  static auto before(T a, T b) {
    return b < a;
  }
};

/// As C lays it out.
template <class T>
struct Pair {
  T value;
  int index;
};

/// The integer that is half as long as a pair: the value is in the first half, the index in the
/// second one, and either may have padding behind it.
template <size_t kHalf>
struct HalfPair;
template <>
struct HalfPair<4> {
  using Type = int32_t;
  using Moved = float;  // as instructions that take lanes of two vectors have it
};
template <>
struct HalfPair<8> {
  using Type = int64_t;
  using Moved = double;
};

/// How vectors x and y, of pairs that follow each other, are taken apart and put together within
/// groups of 16 bytes, which is what instructions do at once.
template <size_t kHalf>
struct Shuffle {
  using Lane = typename HalfPair<kHalf>::Type;
  using Moved = typename HalfPair<kHalf>::Moved;
  static constexpr size_t kGroup = 16 / kHalf, kCount = kVectorBytes / kHalf;
  /// Lane of x, or behind them of y, for a lane of the values (0) or of the indices (1).
  static constexpr int apart(size_t lane, size_t which) {
    const size_t group = lane / kGroup * kGroup, rest = lane % kGroup;
    const size_t from = 2 * rest < kGroup ? 2 * rest : kCount + 2 * rest - kGroup;
    return static_cast<int>(group + from + which);
  }
  /// Lane of what there is for each pair, for a lane of x (0) or y (1).
  static constexpr int together(size_t lane, size_t which) {
    const size_t group = lane / kGroup * kGroup, rest = lane % kGroup;
    return static_cast<int>(group + which * kGroup / 2 + rest / 2);
  }
  template <size_t kWhich, class V, size_t... kLane>
  static V apart(V x, V y, std::index_sequence<kLane...>) {
    const auto p = as<Moved>(x), q = as<Moved>(y);
    return as<Lane>(__builtin_shufflevector(p, q, apart(kLane, kWhich)...));
  }
  template <size_t kWhich, class V, size_t... kLane>
  static V together(V each, std::index_sequence<kLane...>) {
    const auto p = as<Moved>(each);
    return as<Lane>(__builtin_shufflevector(p, p, together(kLane, kWhich)...));
  }
};

/// Where the pair of `b` and `j` is to be taken instead of that of `a` and `i`.
template <class Order, class Values, class Indices>
auto takes_other(Values a, Values b, Indices i, Indices j) {
  // NOLINTNEXTLINE(misc-redundant-expression): of numbers that are none
  const auto nan_a = a != a, nan_b = b != b, lower = j < i;
  return Order::before(b, a) | ((a == b) & lower) | (nan_b & (~nan_a | lower));
}

/// Values where padding may stand behind them.
template <class T, class Lane>
auto values_of(Vector<Lane> lanes) {
  constexpr int kPadding = 8 * (sizeof(Lane) - sizeof(T));
  if constexpr (kPadding == 0)
    return as<T>(lanes);
  else
    return lanes << kPadding;
}

/// Whole vectors of pairs, two at a time, as far as there are; returns how many bytes they had.
template <class T, class Order>
size_t extremes_of_vectors(unsigned char* __restrict to, const unsigned char* __restrict from,
                           size_t bytes) {
  constexpr size_t kHalf = offsetof(Pair<T>, index), kTwo = 2 * kVectorBytes;
  using Lane = typename HalfPair<kHalf>::Type;
  using Apart = Shuffle<kHalf>;
  constexpr auto kAll = std::make_index_sequence<kLanes<Lane>>();
  constexpr int kPadding = 8 * (kHalf - sizeof(int));
  size_t at = 0;
  for (; at + kTwo <= bytes; at += kTwo) {
    const auto x = load<Lane>(to + at), y = load<Lane>(to + at + kVectorBytes);
    const auto v = load<Lane>(from + at), w = load<Lane>(from + at + kVectorBytes);
    const auto a = values_of<T, Lane>(Apart::template apart<0>(x, y, kAll));
    const auto b = values_of<T, Lane>(Apart::template apart<0>(v, w, kAll));
    const auto i = Apart::template apart<1>(x, y, kAll) << kPadding;
    const auto j = Apart::template apart<1>(v, w, kAll) << kPadding;
    const auto taken = as<Lane>(takes_other<Order>(a, b, i, j));
    store(to + at, select(Apart::template together<0>(taken, kAll), v, x));
    store(to + at + kVectorBytes, select(Apart::template together<1>(taken, kAll), w, y));
  }
  return at;
}

/// The x87 unit has no vectors, and SSE2 compares none of integers of eight bytes.
template <class T>
constexpr bool kHasVectors = sizeof(T) <= (kLongComparisons ? 8 : 4);

/// Of values that are alike the lower index is taken; a NaN goes before all numbers.
template <class T, class Order>
void extremes_all(unsigned char* __restrict to, const unsigned char* __restrict from,
                  size_t bytes) {
  constexpr size_t kIndex = offsetof(Pair<T>, index);
  size_t at = 0;
  if constexpr (kHasVectors<T>) at = extremes_of_vectors<T, Order>(to, from, bytes);
  for (; at < bytes; at += sizeof(Pair<T>)) {
    T a, b;
    int i, j;
    __builtin_memcpy(&a, to + at, sizeof a);
    __builtin_memcpy(&b, from + at, sizeof b);
    __builtin_memcpy(&i, to + at + kIndex, sizeof i);
    __builtin_memcpy(&j, from + at + kIndex, sizeof j);
    // NOLINTBEGIN(misc-redundant-expression): of numbers that are none
    const bool alike = (a == b) | ((a != a) & (b != b));
    const bool better = Order::before(b, a) | ((b != b) & (a == a));
    // NOLINTEND(misc-redundant-expression)
    const bool taken = better | (alike & (j < i));
    a = taken ? b : a;
    i = taken ? j : i;
    __builtin_memcpy(to + at, &a, sizeof a);
    __builtin_memcpy(to + at + kIndex, &i, sizeof i);
  }
}

}  // namespace
}  // namespace ibcoll
