#include "engine/base/data_hash.h"

#include <xxhash.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "engine/base/hash.h"

namespace ibcoll {
namespace {

/// Longer data is hashed in chunks of so many bytes, whose hash XXH3 then is of the sums that all
/// of them make: it reads half as fast as memory in a cache is copied, which would more than double
/// the time of a call.
constexpr uint64_t kHashChunk = 4096;
constexpr size_t kRow = 64, kRowWords = kRow / sizeof(uint64_t), kHalf = kRowWords / 2;

/// Of the words in each column of a chunk: the sum, which no single error leaves as it is. Of each
/// word, a key, and the word half a row behind with its halves changed over: the products of the
/// halves of what they make together (NH of UMAC; Black, Halevi, Krawczyk, Krovetz and Rogaway
/// 1999), which several errors hardly ever leave as they are. `above`: the sums of these after each
/// chunk, which tell where a chunk stands.
struct ByteSums {
  alignas(32) std::array<uint64_t, kRowWords> plain{}, plain_above{};
  alignas(32) std::array<uint64_t, kHalf> products{}, products_above{};
  uint64_t bytes = 0, seed = 0, unused[2] = {};
};
static_assert(std::has_unique_object_representations_v<ByteSums>, "all of it is hashed");

struct alignas(64) Keys {
  std::array<uint64_t, kHashChunk / sizeof(uint64_t) / 2> words;
};
constexpr Keys make_keys() {
  Keys keys{};
  uint64_t seed = 0x6b657973;
  for (uint64_t& word : keys.words) word = scramble(seed += kGolden);
  return keys;
}
constexpr Keys kKeys = make_keys();

using AddChunk = void (*)(ByteSums& sums, const std::byte* chunk);

void add_chunk(ByteSums& sums, const std::byte* chunk) {
  const uint64_t* key = kKeys.words.data();
  // Column by column, so that a processor's registers hold its sums.
  for (size_t i = 0; i < kHalf; ++i) {
    uint64_t first = sums.plain[i], second = sums.plain[i + kHalf], made = sums.products[i];
    for (size_t row = 0; row < kHashChunk / kRow; ++row) {
      const std::byte* const place = chunk + row * kRow + i * sizeof(uint64_t);
      uint64_t word, behind;
      std::memcpy(&word, place, sizeof word);
      std::memcpy(&behind, place + kRow / 2, sizeof behind);
      first += word;
      second += behind;
      word ^= key[row * kHalf + i] ^ std::rotl(behind, 32);
      made += (word & 0xffffffff) * (word >> 32);
    }
    sums.plain[i] = first;
    sums.plain[i + kHalf] = second;
    sums.products[i] = made;
    sums.plain_above[i] += first;
    sums.plain_above[i + kHalf] += second;
    sums.products_above[i] += made;
  }
}

#ifdef __x86_64__
/// The same in vectors of the processor's.
[[gnu::target("avx2")]] void add_chunk_avx2(ByteSums& sums, const std::byte* chunk) {
  auto* const plain = reinterpret_cast<__m256i*>(sums.plain.data());
  auto* const plain_above = reinterpret_cast<__m256i*>(sums.plain_above.data());
  auto* const products = reinterpret_cast<__m256i*>(sums.products.data());
  auto* const products_above = reinterpret_cast<__m256i*>(sums.products_above.data());
  const auto* data = reinterpret_cast<const __m256i*>(chunk);
  const auto* key = reinterpret_cast<const __m256i*>(kKeys.words.data());
  __m256i plain0 = plain[0], plain1 = plain[1], made = products[0];
#pragma GCC unroll 8
  for (size_t row = 0; row < kHashChunk / kRow; ++row, data += 2) {
    constexpr int kChangedOver = 0xb1;  // places 2 3 0 1, from the last
    const __m256i word0 = _mm256_loadu_si256(data), word1 = _mm256_loadu_si256(data + 1);
    plain0 = _mm256_add_epi64(plain0, word0);
    plain1 = _mm256_add_epi64(plain1, word1);
    const __m256i word = _mm256_xor_si256(_mm256_xor_si256(word0, *key++),
                                          _mm256_shuffle_epi32(word1, kChangedOver));
    made = _mm256_add_epi64(made, _mm256_mul_epu32(word, _mm256_srli_epi64(word, 32)));
  }
  plain[0] = plain0;
  plain[1] = plain1;
  products[0] = made;
  plain_above[0] = _mm256_add_epi64(plain_above[0], plain0);
  plain_above[1] = _mm256_add_epi64(plain_above[1], plain1);
  products_above[0] = _mm256_add_epi64(products_above[0], made);
}

AddChunk best_add_chunk() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0 ? add_chunk_avx2 : add_chunk;
}
#else
AddChunk best_add_chunk() { return add_chunk; }
#endif

}  // namespace

uint64_t hash_data(const StridedView& view, uint64_t bytes, uint64_t seed) {
  if (bytes == 0) return seed;
  StridedCursor cursor(view);
  alignas(64) std::byte packed[kHashChunk];
  if (bytes < kHashChunk) {
    if (cursor.left() >= bytes) return XXH3_64bits_withSeed(cursor.place(), bytes, seed);
    copy_strided({packed}, view, bytes);
    return XXH3_64bits_withSeed(packed, bytes, seed);
  }
  static const AddChunk add = best_add_chunk();
  ByteSums sums;
  sums.bytes = bytes;
  sums.seed = seed;
  for (uint64_t at = 0; at < bytes; at += kHashChunk) {
    const uint64_t piece = std::min(kHashChunk, bytes - at);
    if (piece == kHashChunk && cursor.left() >= kHashChunk) {
      add(sums, cursor.place());
      cursor.skip(kHashChunk);
      continue;
    }
    std::memset(packed + piece, 0, kHashChunk - piece);
    copy_strided({packed}, view.from(at), piece);
    add(sums, packed);
    if (at + piece < bytes) cursor = StridedCursor(view.from(at + piece));
  }
  return XXH3_64bits(&sums, sizeof sums);
}

}  // namespace ibcoll
