#include "engine/execute/linear_hash.h"

#include <algorithm>
#include <cstring>

#include "engine/base/hash.h"

namespace ibcoll {
namespace {

/// Data is taken in chunks of so many bytes, whose elements are lanes: all that stands at one place
/// of the chunks is one lane's.
constexpr size_t kChunk = 4096;

struct alignas(64) HashLanes {
  std::byte bytes[kChunk];
};

/// What lanes are multiplied by: numbers that are odd whatever the length of an element is, so that
/// no bit is lost. Each chunk begins elsewhere in them, since the powers of one odd number of 8
/// bits are soon the same again.
constexpr size_t kFactorSteps = kChunk / kLinearHashBytes;
struct alignas(64) Factors {
  uint64_t words[2 * kChunk / sizeof(uint64_t)];
};
constexpr Factors make_factors() {
  Factors all{};
  uint64_t seed = 0;
  for (uint64_t& word : all.words) word = scramble(seed += kGolden) | 0x0101010101010101;
  return all;
}
constexpr Factors kFactors = make_factors();
const std::byte* factors_of(size_t chunk) {
  return reinterpret_cast<const std::byte*>(kFactors.words) +
         chunk % kFactorSteps * kLinearHashBytes;
}

/// state <- step(state) ^ words, in vectors of whichever instructions it is put among.
template <size_t kBytes>
[[gnu::always_inline]] inline void add_bits(std::byte* state, const std::byte* words) {
  constexpr size_t kVector = 32;
  using Vector [[gnu::vector_size(kVector)]] = uint64_t;
  for (size_t at = 0; at < kBytes; at += kVector) {
    Vector lane, word;
    std::memcpy(&lane, state + at, kVector);
    std::memcpy(&word, words + at, kVector);
    // Linear, and back at the beginning after 2^64 - 1 steps (Marsaglia 2003), so no bit is lost.
    lane ^= lane << 13;
    lane ^= lane >> 7;
    lane ^= lane << 17;
    lane ^= word;
    std::memcpy(state + at, &lane, kVector);
  }
}
[[gnu::always_inline]] inline void hash_bits_by(const std::byte* data, uint64_t bytes,
                                                std::byte* hash) {
  HashLanes lanes{};
  uint64_t at = 0;
  for (; at + kChunk <= bytes; at += kChunk) add_bits<kChunk>(lanes.bytes, data + at);
  if (at < bytes) {
    HashLanes last{};
    std::memcpy(last.bytes, data + at, bytes - at);
    add_bits<kChunk>(lanes.bytes, last.bytes);
  }
  std::memset(hash, 0, kLinearHashBytes);
  for (size_t row = 0; row < kChunk; row += kLinearHashBytes)
    add_bits<kLinearHashBytes>(hash, lanes.bytes + row);
}

void hash_bits_anywhere(const std::byte* data, uint64_t bytes, std::byte* hash) {
  hash_bits_by(data, bytes, hash);
}
#ifdef __x86_64__
[[gnu::target("avx2")]] void hash_bits_avx2(const std::byte* data, uint64_t bytes,
                                            std::byte* hash) {
  hash_bits_by(data, bytes, hash);
}
#endif

void hash_bits(const std::byte* data, uint64_t bytes, std::byte* hash) {
#ifdef __x86_64__
  static const bool avx2 = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") != 0;
  }();
  if (avx2) return hash_bits_avx2(data, bytes, hash);
#endif
  hash_bits_anywhere(data, bytes, hash);
}

void hash_numbers(ElementType type, const std::byte* data, uint64_t bytes, std::byte* hash) {
  // All types of integers have both.
  const Combine add = find_reduction(type, Operator::kSum)->combine;
  const Combine multiply = find_reduction(type, Operator::kProduct)->combine;
  HashLanes lanes;
  size_t used = std::min<uint64_t>(bytes, kChunk);
  std::memcpy(lanes.bytes, data, used);
  multiply(lanes.bytes, factors_of(0), used, nullptr);
  for (uint64_t at = kChunk, chunk = 1; at < bytes; at += kChunk, ++chunk) {
    add(lanes.bytes, data + at, std::min<uint64_t>(kChunk, bytes - at), nullptr);
    multiply(lanes.bytes, factors_of(chunk), used, nullptr);
  }
  while (used > kLinearHashBytes) {
    const size_t half = (used / 2 + kLinearHashBytes - 1) / kLinearHashBytes * kLinearHashBytes;
    add(lanes.bytes, lanes.bytes + half, used - half, nullptr);
    used = half;
  }
  std::memcpy(hash, lanes.bytes, kLinearHashBytes);
}

bool is_integer(ElementType type) { return type <= ElementType::kUint64; }

}  // namespace

bool has_linear_hash(const Reduction& reduction) {
  const Operator op = reduction.op();
  if (reduction.meaning == 0) return false;
  return op == Operator::kBitXor || (op == Operator::kSum && is_integer(reduction.element()));
}

void linear_hash(const Reduction& reduction, const std::byte* data, uint64_t bytes,
                 std::byte* hash) {
  if (bytes <= kLinearHashBytes) {
    std::memset(hash, 0, kLinearHashBytes);
    if (bytes != 0) std::memcpy(hash, data, bytes);
  } else if (reduction.op() == Operator::kBitXor) {
    hash_bits(data, bytes, hash);
  } else {
    hash_numbers(reduction.element(), data, bytes, hash);
  }
}

}  // namespace ibcoll
