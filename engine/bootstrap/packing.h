#pragma once
/// Records of all ranks as they travel between machines: much alike and zeros for the most part, so
/// they shrink to a fraction (by zlib; OpenPMIx packs what processes tell each other so, too).

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace ibcoll {

/// Nothing: there is no memory for it.
std::optional<std::vector<std::byte>> pack(std::span<const std::byte> bytes);
/// False, unless `packed` is just as many bytes as there is room for, packed. What is in `bytes`
/// then counts for nothing.
bool unpack(std::span<const std::byte> packed, std::span<std::byte> bytes);

}  // namespace ibcoll
