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

/// The address vector to reach `peer` from `port`; `lid`: the peer's, or the router's.
ibv_ah_attr address_vector(const PortInfo& port, const PortAddress& peer, uint16_t lid);

/// The same, with the router's LID asked for where one is needed; that may take a second.
/// ErrorCode::kPeerFailed: there is no way now.
Result<ibv_ah_attr> find_route(const PortInfo& port, const PortAddress& peer);

/// An address handle for datagrams to a peer; RoCE may take seconds to find that there is no way.
/// ErrorCode::kPeerFailed: there is none now.
Result<AddressHandle> find_way(const Device& device, const PortAddress& peer);

/// Whether a system error means that there is no way to a peer now, but may be soon: a link comes
/// up again, a neighbour has not answered yet.
bool is_unreachable(int error);

}  // namespace ibcoll::verbs
