#pragma once
/// Floats of 16 bits, as floats. A part of reduction_loops.h; see there.

#include <cstddef>
#include <cstdint>

#ifdef __AVX2__
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
  static float to_float(uint32_t half) { return float_of(half << 16); }
  static uint32_t from_float(float value) {
    const uint32_t all = bits_of(value);
    const uint32_t rounded = (all + 0x7fffu + (all >> 16 & 1u)) >> 16;
    return (all & 0x7fffffffu) > 0x7f800000u ? all >> 16 | 0x40u : rounded;
  }
};

#ifdef __AVX2__
#define IBCOLL_HALF_LANES
constexpr size_t kHalfLanes = 8;

__m256 load_lanes(Float16, const unsigned char* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
void store_lanes(Float16, __m256 lanes, unsigned char* to) {
  const __m128i halves = _mm256_cvtps_ph(lanes, _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
}

__m256 load_lanes(Bfloat16, const unsigned char* from) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
/// As Bfloat16::from_float does it.
void store_lanes(Bfloat16, __m256 lanes, unsigned char* to) {
  const __m256i all = _mm256_castps_si256(lanes), upper = _mm256_srli_epi32(all, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(all, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i rounded = _mm256_srli_epi32(sum, 16);
  const __m256i nan = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(lanes, lanes, _CMP_UNORD_Q));
  const __m256i wide = _mm256_blendv_epi8(rounded, nan, is_nan);
  const __m128i halves =
      _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
}
#endif

}  // namespace
}  // namespace ibcoll
