#include "engine/bootstrap/gather_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/hash.h"

namespace ibcoll {

uint32_t GatherCall::mark_of(std::span<const Rank> givers) {
  uint64_t hash = givers.size();
  for (const Rank giver : givers) hash = mix(hash, static_cast<uint64_t>(giver));
  return std::max<uint32_t>(scramble(hash) & 0xffffff, 1);
}

std::string disagreement(Rank one, const GatherCall& its, Rank other, const GatherCall& theirs) {
  const std::string what =
      its.bytes == theirs.bytes
          ? fmt::format("on which of them give anything: ranks {} and {}", one, other)
          : fmt::format("rank {} gives {} bytes, rank {} gives {}", one, its.bytes, other,
                        theirs.bytes);
  return fmt::format("ranks disagree in an allgather or barrier: {}", what);
}

}  // namespace ibcoll
