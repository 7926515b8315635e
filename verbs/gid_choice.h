#pragma once
/// Which of a port's GIDs it is addressed by.

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ibcoll::verbs {

/// What is known of the network interface that a GID belongs to.
struct GidInterface {
  bool here = true;   ///< in this network namespace, with the GID's address
  bool vlan = false;  ///< what it sends carries a tag
};
using FindInterface = std::function<GidInterface(const ibv_gid_entry&)>;
/// As this process sees it. True and false where the kernel does not say.
GidInterface interface_of(const ibv_gid_entry& entry);

/// The GIDs of a RoCE port in the order in which they are to be tried: RoCE v2 before v1, which no
/// router knows; addresses that others can reach before fe80::, and 169.254.0.0/16, which an
/// interface gets that waits for an address, last; without a VLAN before those in one, since which
/// ports share it nobody says; IPv4 before IPv6. Those of other network namespaces are left out:
/// nothing can be sent from them.
std::vector<ibv_gid_entry> ranked_gids(std::span<const ibv_gid_entry> entries,
                                       const FindInterface& interface = interface_of);

/// "::ffff:10.0.0.1".
std::string gid_text(const ibv_gid& gid);
/// "IB", "RoCE v1" or "RoCE v2".
const char* gid_type_name(uint32_t type);

}  // namespace ibcoll::verbs
