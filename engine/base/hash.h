#pragma once
/// Hashes: the same on every machine, so that ranks may compare them and files be named by them.
/// Quick and even, not safe from who looks for collisions.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ibcoll {

/// 2^64 over the golden ratio, odd.
inline constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

/// Every bit of the result depends on every bit of `value`; no two values have the same result
/// (the last step of splitmix64, Steele, Lea and Flood 2014).
constexpr uint64_t scramble(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

/// The hash of a sequence, one value longer. Begins with any constant, which keeps kinds of
/// sequences apart.
constexpr uint64_t mix(uint64_t hash, uint64_t value) { return scramble(hash + value + kGolden); }

/// FNV-1a, after the bytes that `hash` is of.
constexpr uint64_t hash_bytes(std::string_view bytes, uint64_t hash = 0xcbf29ce484222325ULL) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  return hash;
}

/// The bucket for `value` of 2^bits, 1 to 63: for tables that are looked up where time counts.
constexpr size_t bucket_of(uint64_t value, int bits) { return value * kGolden >> (64 - bits); }

}  // namespace ibcoll
