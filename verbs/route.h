#pragma once
/// How packets find their way from a port to a peer's.

#include <cstdint>
#include <string>

#include "engine/base/result.h"
#include "verbs/device.h"

namespace ibcoll::verbs {

/// What a peer has to know to send to a port. Travels as bytes.
struct PortAddress {
  uint8_t gid[16] = {};
  uint16_t lid = 0;
  uint8_t mtu = 0;
  uint8_t ethernet = 0;
  uint8_t global = 0;  ///< see PortInfo
  uint8_t reserved[3] = {};
};
PortAddress address_of(const PortInfo& port);
/// "::ffff:10.0.0.1" or, of an InfiniBand port, "LID 7, fe80::1".
std::string describe(const PortAddress& address);

/// What a packet needs besides the peer's LID.
enum class RouteKind {
  kLocal,   ///< nothing: InfiniBand inside a subnet
  kGlobal,  ///< a global route header: RoCE, and InfiniBand ports that require one
  kRouted,  ///< also the LID of a router, which the subnet manager knows: InfiniBand between
            ///< subnets
};
RouteKind route_kind(const PortInfo& port, const PortAddress& peer);

/// How packets reach a peer's port.
struct Path {
  uint16_t lid = 0;  ///< InfiniBand: the peer's, or that of the router towards it
  uint8_t service_level = 0;
  ibv_mtu mtu = IBV_MTU_4096;
};

/// The address vector to reach `peer` from `port` on that path.
ibv_ah_attr address_vector(const PortInfo& port, const PortAddress& peer, const Path& path);

/// A way that was found: for queue pairs, and for datagrams.
struct Way {
  ibv_ah_attr attributes{};
  ibv_mtu mtu = IBV_MTU_4096;
  AddressHandle handle;
};

/// Looks for the way from a device's port to a peer's. May take seconds: the kernel asks the
/// network for a RoCE port's neighbour, the subnet manager is asked for a path.
/// ErrorCode::kPeerFailed: there is none now.
Result<Way> find_way(const Device& device, const PortAddress& peer);

/// Whether a system error means that there is no way to a peer now, but may be soon: a link comes
/// up again, a neighbour has not answered yet.
bool is_unreachable(int error);

}  // namespace ibcoll::verbs
