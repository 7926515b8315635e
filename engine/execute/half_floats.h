#pragma once
/// Floats of 16 bits, as floats. A part of reduction_loops.h; see there.

#include <cstddef>
#include <cstdint>

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace ibcoll {
namespace {

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
  static constexpr bool kInLanes = true;

  static float to_float(uint16_t half) {
#ifdef __aarch64__
    __fp16 value;
    __builtin_memcpy(&value, &half, sizeof value);
    return value;
#else
    constexpr uint32_t kRebias = 112u << 23, kInfinity = 0x7c00u << 13;
    const uint32_t sign = (half & 0x8000u) << 16, rest = (half & 0x7fffu) << 13;
    // Subnormal ones: a float whose fraction is theirs, less the one that the float has before it.
    const uint32_t small = bits_of(float_of(rest + kRebias + (1u << 23)) - 0x1p-14f);
    const uint32_t large = rest + kRebias + (rest >= kInfinity ? kRebias : 0);
    return float_of(sign | (rest < (1u << 23) ? small : large));
#endif
  }
  static uint16_t from_float(float value) {
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
    return static_cast<uint16_t>(half | (all >> 16 & 0x8000u));
#endif
  }
};

/// The upper half of a float.
struct Bfloat16 {
  static constexpr bool kInLanes = false;

  static float to_float(uint16_t half) { return float_of(uint32_t{half} << 16); }
  static uint16_t from_float(float value) {
    const uint32_t all = bits_of(value);
    const uint32_t rounded = (all + 0x7fffu + (all >> 16 & 1u)) >> 16;
    return static_cast<uint16_t>((all & 0x7fffffffu) > 0x7f800000u ? all >> 16 | 0x40u : rounded);
  }
};

#ifdef __F16C__
#define IBCOLL_HALF_LANES
#ifdef __AVX512F__
constexpr size_t kHalfLanes = 16;
#else
constexpr size_t kHalfLanes = 8;
#endif

/// Some Float16 at a time, by the instructions that convert them.
template <class Op>
void combine_half_lanes(unsigned char* target, const unsigned char* source) {
  float x[kHalfLanes], y[kHalfLanes];
#ifdef __AVX512F__
  const auto load = [](const unsigned char* from, float* to) {
    const auto* const place = reinterpret_cast<const __m256i*>(from);
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(place)));
  };
#else
  const auto load = [](const unsigned char* from, float* to) {
    const auto* const place = reinterpret_cast<const __m128i*>(from);
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(place)));
  };
#endif
  load(target, x);
  load(source, y);
  for (size_t i = 0; i < kHalfLanes; ++i) x[i] = Op::template apply<float>(x[i], y[i]);
#ifdef __AVX512F__
  const __m256i halves = _mm512_cvtps_ph(_mm512_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), halves);
#else
  const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(target), halves);
#endif
}
#endif

}  // namespace
}  // namespace ibcoll
