#pragma once
/// The transports between servers that are folders of their own: all but the loopback. CMake writes
/// the definition from the folders.

#include <vector>

#include "engine/transport/network_kind.h"

namespace ibcoll {

std::vector<NetworkKind> built_network_kinds();

}  // namespace ibcoll
