#pragma once
/// The ports that verbs know, as engine/transport/network_ports.h shows them.

#include <vector>

#include "engine/transport/network_ports.h"

namespace ibcoll::verbs {

std::vector<NetworkPort> network_ports();

}  // namespace ibcoll::verbs
