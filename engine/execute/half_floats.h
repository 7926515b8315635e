#pragma once
/// Floats of 16 bits, as floats. A part of reduction_loops.h; see there.

#include <cstddef>
#include <cstdint>

#include "engine/execute/reduction_vectors.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ibcoll {
namespace {
// Each source has its own, of its instructions. NOLINTBEGIN(misc-definitions-in-headers)

uint32_t bits_of(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
float float_of(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

/// IEEE 754's: 5 bits of exponent, 10 of fraction. All roundings are to the nearest, halfway to the
/// even one, and a NaN stays one, with its sign and as much of its fraction as there is room for.
struct Float16 {
  static constexpr int16_t kInfinity = 0x7c00;
  static float to_float(uint16_t half) {
#ifdef __aarch64__
    __fp16 value;
    __builtin_memcpy(&value, &half, sizeof value);
    return value;
#else
    constexpr uint32_t kRebias = 112u << 23, kEnd = 0x7c00u << 13;
    const uint32_t sign = (half & 0x8000u) << 16, rest = (half & 0x7fffu) << 13;
    // Subnormal ones: a float whose fraction is theirs, less the one that the float has before it.
    const uint32_t small = bits_of(float_of(rest + kRebias + (1u << 23)) - 0x1p-14f);
    const uint32_t large = rest + kRebias + (rest >= kEnd ? kRebias : 0);
    return float_of(sign | (rest < (1u << 23) ? small : large));
#endif
  }
  static uint32_t from_float(float value) {
#ifdef __aarch64__
    const auto half = static_cast<__fp16>(value);
    uint16_t bits;
    __builtin_memcpy(&bits, &half, sizeof bits);
    return bits;
#else
    const uint32_t all = bits_of(value), rest = all & 0x7fffffffu;
    const uint32_t nan = 0x7e00u | (rest >> 13 & 0x3ffu);
    const uint32_t normal = (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13;
    // The addition shifts the fraction to its place, and rounds.
    const uint32_t small = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);
    uint32_t half = rest < bits_of(0x1p-14f) ? small : normal;
    half = rest >= bits_of(0x1p16f) ? 0x7c00u : half;
    half = rest > 0x7f800000u ? nan : half;
    return half | (all >> 16 & 0x8000u);
#endif
  }
};

/// The upper half of a float.
struct Bfloat16 {
  static constexpr int16_t kInfinity = 0x7f80;
  static float to_float(uint32_t half) { return float_of(half << 16); }
  static uint32_t from_float(float value) {
    const uint32_t all = bits_of(value);
    const uint32_t rounded = (all + 0x7fffu + (all >> 16 & 1u)) >> 16;
    return (all & 0x7fffffffu) > 0x7f800000u ? all >> 16 | 0x40u : rounded;
  }
};

/// As many floats as there are halves in a vector, in whatever order narrow() takes them.
struct Widened {
  Vector<float> first, second;
};

/// The even ones and the odd ones.
Widened widen(Bfloat16, const unsigned char* from) {
  const auto both = load<uint32_t>(from);
  return {as<float>(both << 16), as<float>(both & 0xffff0000u)};
}
/// As Bfloat16::from_float, of what has been added or multiplied: a NaN is quiet then, and its
/// lower half is 0 as those of the halves were, so that it is not rounded to something else.
void narrow(Bfloat16, Widened wide, unsigned char* to) {
  const auto even = as<uint32_t>(wide.first), odd = as<uint32_t>(wide.second);
  const auto upper = as<uint16_t>(even >> 16 | (odd & 0xffff0000u));
  const auto lower = as<uint16_t>((even & 0xffffu) | odd << 16);
  // More than half of the last place, or half of it where that is odd.
  const auto more = lower >= ((~upper & 1) | 0x8000);
  store(to, upper - as<uint16_t>(more));
}

#ifdef __AVX512F__
// g++ 12 calls what its own unmasked conversions begin with uninitialized, in sanitized builds.
constexpr __mmask16 kAllLanes = 0xffff;
Widened widen(Float16, const unsigned char* from) {
  const auto* const halves = reinterpret_cast<const __m256i*>(from);
  return {_mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(halves)),
          _mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(halves + 1))};
}
void narrow(Float16, Widened wide, unsigned char* to) {
  auto* const halves = reinterpret_cast<__m256i*>(to);
  constexpr int kRounding = _MM_FROUND_TO_NEAREST_INT;
  _mm256_storeu_si256(halves, _mm512_maskz_cvtps_ph(kAllLanes, wide.first, kRounding));
  _mm256_storeu_si256(halves + 1, _mm512_maskz_cvtps_ph(kAllLanes, wide.second, kRounding));
}
#elif defined(__AVX2__)
Widened widen(Float16, const unsigned char* from) {
  const auto* const halves = reinterpret_cast<const __m128i*>(from);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
void narrow(Float16, Widened wide, unsigned char* to) {
  auto* const halves = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(halves, _mm256_cvtps_ph(wide.first, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(wide.second, _MM_FROUND_TO_NEAREST_INT));
}
#endif

/// As integers in the order of the floats; `size`: without the sign. 0 and -0 are alike.
Vector<int16_t> value_of(Vector<int16_t> half, Vector<int16_t> size) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return as<int16_t>(_mm256_sign_epi16(as<long long>(size), as<long long>(half)));
#else
  const auto sign = half >> 15;
  return (size ^ sign) - sign;
#endif
}
/// Where x is less than y, and neither is a NaN.
template <class Half>
Vector<int16_t> less(Half, Vector<int16_t> x, Vector<int16_t> y) {
  const auto size_x = x & 0x7fff, size_y = y & 0x7fff;
  const auto larger = size_x > size_y ? size_x : size_y;
  return (value_of(x, size_x) < value_of(y, size_y)) & (larger <= Half::kInfinity);
}

// NOLINTEND(misc-definitions-in-headers)
}  // namespace
}  // namespace ibcoll
