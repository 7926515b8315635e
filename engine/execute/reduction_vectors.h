#pragma once
/// Vectors as long as a register of the processor that this is compiled for. A part of
/// reduction_loops.h; see there.

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ibcoll {
namespace {
// Each source has its own, of its instructions. NOLINTBEGIN(misc-definitions-in-headers)

#if defined(__AVX512F__)
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;
#endif

/// Whether vectors of integers of eight bytes are compared by an instruction.
#if defined(__SSE2__) && !defined(__AVX2__)
constexpr bool kLongComparisons = false;
#else
constexpr bool kLongComparisons = true;
#endif

template <class T>
struct VectorOf {
  using Type [[gnu::vector_size(kVectorBytes)]] = T;
};
/// Of as many T as there is room for. Comparisons give vectors of integers, -1 for true.
template <class T>
using Vector = typename VectorOf<T>::Type;
template <class T>
constexpr size_t kLanes = kVectorBytes / sizeof(T);

template <class T>
Vector<T> load(const unsigned char* from) {
  Vector<T> vector;
  __builtin_memcpy(&vector, from, sizeof vector);
#ifdef __x86_64__
  // Read once, not by each instruction that uses it: out of the cache that takes half as long
  // again.
  asm("" : "+v"(vector));
#endif
  return vector;
}
template <class V>
void store(unsigned char* to, V vector) {
  __builtin_memcpy(to, &vector, sizeof vector);
}
/// The same bits.
template <class T, class V>
Vector<T> as(V vector) {
  Vector<T> same;
  __builtin_memcpy(&same, &vector, sizeof same);
  return same;
}
/// Lanes of `b` where those of `mask` are -1, of `a` where they are 0.
template <class V>
V select(V mask, V b, V a) {
  return a ^ ((a ^ b) & mask);
}

// NOLINTEND(misc-definitions-in-headers)
}  // namespace
}  // namespace ibcoll
