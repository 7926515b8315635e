#pragma once
/// The transports between servers that this build has, by name: the loopback, and one for each
/// folder beside engine/ that has a network_kind.h. CMake writes the definition from the folders.

#include <span>
#include <string_view>

namespace ibcoll {

std::span<const std::string_view> network_names();

}  // namespace ibcoll
