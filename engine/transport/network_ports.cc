#include "engine/transport/network_ports.h"

#include "verbs/network_ports.h"

namespace ibcoll {

// Not asked of a NetworkKind: whoever opens a transport would be linked with what lists ports, too.
std::vector<NetworkPort> network_ports() { return verbs::network_ports(); }

}  // namespace ibcoll
