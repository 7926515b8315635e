#pragma once
/// A small, fast generator for searches (xoshiro256**, Blackman and Vigna 2018), the same on every
/// platform.

#include <bit>
#include <cstdint>

#include "engine/base/hash.h"

namespace ibcoll::topology {

class FastRandom {
 public:
  explicit FastRandom(uint64_t seed) {
    for (uint64_t& word : state_) word = scramble(seed += kGolden);  // splitmix64
  }
  uint64_t next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  /// Even in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Even in [0, limit), limit at least 1.
  int below(int limit) {
    return static_cast<int>((next() >> 32) * static_cast<uint64_t>(limit) >> 32);
  }

 private:
  uint64_t state_[4];
};

}  // namespace ibcoll::topology
