#include "studies/measure/pattern.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/base/hash.h"

namespace ibcoll::measure {
namespace {

constexpr size_t kWords = 512;
using Chunk = std::array<uint64_t, kWords>;

/// The words from number `first` on: a counter in steps that change every byte, started at a value
/// no other key has.
void make_chunk(Chunk& chunk, uint64_t seed, uint64_t first) {
  for (size_t i = 0; i < kWords; ++i) chunk[i] = seed + (first + i) * 0x9d39247e33776d41;
}

uint64_t seed_of(const PatternKey& key) {
  const uint64_t pair = static_cast<uint64_t>(static_cast<uint32_t>(key.origin)) << 32 |
                        static_cast<uint32_t>(key.target);
  return mix(scramble(pair), key.iteration);
}

}  // namespace

void fill_pattern(std::byte* to, size_t bytes, const PatternKey& key) {
  Chunk chunk;
  for (size_t at = 0; at < bytes; at += sizeof chunk) {
    make_chunk(chunk, seed_of(key), at / sizeof(uint64_t));
    std::memcpy(to + at, chunk.data(), std::min(sizeof chunk, bytes - at));
  }
}

std::optional<size_t> find_difference(const std::byte* data, size_t bytes, const PatternKey& key) {
  Chunk chunk;
  for (size_t at = 0; at < bytes; at += sizeof chunk) {
    make_chunk(chunk, seed_of(key), at / sizeof(uint64_t));
    const size_t length = std::min(sizeof chunk, bytes - at);
    if (std::memcmp(data + at, chunk.data(), length) == 0) continue;
    const auto* expected = reinterpret_cast<const std::byte*>(chunk.data());
    return at + static_cast<size_t>(std::mismatch(data + at, data + at + length, expected).first -
                                    (data + at));
  }
  return std::nullopt;
}

}  // namespace ibcoll::measure
