#include "engine/base/digest.h"

#include <xxhash.h>

#include <unordered_map>

namespace ibcoll {
namespace {

struct LowBits {
  size_t operator()(const Digest& digest) const { return digest.low; }
};

}  // namespace

Digest digest_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  const Digest digest{hash.low64, hash.high64};
  return digest.empty() ? Digest{1, 0} : digest;
}

DistinctNumbers number_distinct(std::span<const Digest> digests) {
  DistinctNumbers distinct;
  distinct.numbers.reserve(digests.size());
  std::unordered_map<Digest, int32_t, LowBits> known;
  for (size_t i = 0; i < digests.size(); ++i) {
    const auto [number, fresh] =
        known.try_emplace(digests[i], static_cast<int32_t>(distinct.firsts.size()));
    if (fresh) distinct.firsts.push_back(static_cast<int32_t>(i));
    distinct.numbers.push_back(number->second);
  }
  return distinct;
}

}  // namespace ibcoll
