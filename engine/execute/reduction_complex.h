#pragma once
/// Products of complex numbers: (a + bi) (c + di) by the formula, with no look at infinities that
/// come out as NaN. A part of reduction_loops.h; see there.

#include "engine/execute/reduction_vectors.h"

namespace ibcoll {
namespace {
// Each source has its own, of its instructions. NOLINTBEGIN(misc-definitions-in-headers)

/// In lane i that of `i & kKeep ^ kFlip`. Real parts stand in the even lanes.
template <size_t kKeep, size_t kFlip, class V, size_t... kLane>
V lanes_of(V x, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(x, x, static_cast<int>((kLane & kKeep) ^ kFlip)...);
}

/// Written out since g++ 12 makes a loop of the formula into instructions that fuse products with
/// sums, whatever -ffp-contract says.
template <class T>
Vector<T> multiply(Vector<T> x, Vector<T> y) {
  constexpr auto kAll = std::make_index_sequence<kLanes<T>>();
  constexpr size_t kEven = ~size_t{1};
  const auto a = lanes_of<kEven, 0>(x, kAll), b = lanes_of<kEven, 1>(x, kAll);
  const auto minus = lanes_of<1, 0>(Vector<T>{-T{0}, T{0}}, kAll);
  // Less is the same as plus what has the other sign.
  const auto crossed = b * lanes_of<~size_t{0}, 1>(y, kAll);
  return a * y + as<T>(as<uint32_t>(crossed) ^ as<uint32_t>(minus));
}

template <class T>
void multiply_all(unsigned char* __restrict to, const unsigned char* __restrict from,
                  size_t bytes) {
  size_t at = 0;
  for (; at + kVectorBytes <= bytes; at += kVectorBytes)
    store(to + at, multiply<T>(load<T>(to + at), load<T>(from + at)));
  if (at == bytes) return;
  unsigned char x[kVectorBytes] = {}, y[kVectorBytes] = {};
  __builtin_memcpy(x, to + at, bytes - at);
  __builtin_memcpy(y, from + at, bytes - at);
  store(x, multiply<T>(load<T>(x), load<T>(y)));
  __builtin_memcpy(to + at, x, bytes - at);
}

/// The x87 unit has no vectors.
template <>
void multiply_all<long double>(unsigned char* __restrict to, const unsigned char* __restrict from,
                               size_t bytes) {
  using T = long double;
  for (size_t at = 0; at < bytes; at += 2 * sizeof(T)) {
    T x[2], y[2];
    __builtin_memcpy(x, to + at, sizeof x);
    __builtin_memcpy(y, from + at, sizeof y);
    const T product[2] = {x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]};
    __builtin_memcpy(to + at, product, sizeof product);
  }
}

// NOLINTEND(misc-definitions-in-headers)
}  // namespace
}  // namespace ibcoll
