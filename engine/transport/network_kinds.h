#pragma once
/// All transports between servers that this build has: the loopback first. CMake writes the
/// definition from the folders.

#include <vector>

#include "engine/transport/network_kind.h"

namespace ibcoll {

std::vector<NetworkKind> built_network_kinds();

}  // namespace ibcoll
