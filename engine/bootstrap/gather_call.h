#pragma once
/// What the ranks that make an allgather have to agree on.

#include <cstdint>
#include <span>
#include <string>

#include "engine/schedule/shape.h"

namespace ibcoll {

struct GatherCall {
  uint64_t bytes = 0;   ///< of each rank that gives something: less than 2^40
  uint32_t givers = 0;  ///< which these are, see mark_of(); 0: all
  bool operator==(const GatherCall&) const = default;

  /// Tells lists of ranks from each other, as a rule, and from 0: 24 bits.
  static uint32_t mark_of(std::span<const Rank> givers);

  uint64_t pack() const { return uint64_t{givers} << kByteBits | bytes; }
  static GatherCall unpack(uint64_t packed) {
    return {packed & ((uint64_t{1} << kByteBits) - 1), static_cast<uint32_t>(packed >> kByteBits)};
  }

 private:
  static constexpr int kByteBits = 40;
};

/// What is wrong where two ranks make different calls.
std::string disagreement(Rank one, const GatherCall& its, Rank other, const GatherCall& theirs);

}  // namespace ibcoll
