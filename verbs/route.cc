#include "verbs/route.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#include "verbs/paths.h"

namespace ibcoll::verbs {

namespace {

constexpr size_t kPrefixBytes = 8;  ///< of a GID: its subnet's
constexpr uint8_t kHopLimit = 64;

}  // namespace

bool is_unreachable(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
         error == EHOSTDOWN || error == EAGAIN;
}

PortAddress address_of(const PortInfo& port) {
  PortAddress address;
  std::memcpy(address.gid, port.gid.raw, sizeof address.gid);
  address.lid = port.lid;
  address.mtu = static_cast<uint8_t>(port.mtu);
  address.ethernet = port.ethernet;
  address.global = port.global;
  return address;
}

std::string describe(const PortAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, address.gid, text, sizeof text);
  return address.ethernet ? text : fmt::format("LID {}, {}", address.lid, text);
}

RouteKind route_kind(const PortInfo& port, const PortAddress& peer) {
  if (port.ethernet) return RouteKind::kGlobal;
  if (std::memcmp(peer.gid, port.gid.raw, kPrefixBytes) != 0) return RouteKind::kRouted;
  return port.global || peer.global != 0 ? RouteKind::kGlobal : RouteKind::kLocal;
}

ibv_ah_attr address_vector(const PortInfo& port, const PortAddress& peer, const Path& path) {
  ibv_ah_attr attributes{};
  attributes.dlid = path.lid;
  attributes.sl = path.service_level;
  attributes.port_num = static_cast<uint8_t>(port.port);
  if (route_kind(port, peer) == RouteKind::kLocal) return attributes;
  attributes.is_global = 1;
  std::memcpy(attributes.grh.dgid.raw, peer.gid, sizeof peer.gid);
  attributes.grh.sgid_index = static_cast<uint8_t>(port.gid_index);
  attributes.grh.hop_limit = kHopLimit;
  attributes.grh.traffic_class = static_cast<uint8_t>(port.traffic_class);
  return attributes;
}

Result<Way> find_way(const Device& device, const PortAddress& peer) {
  IBCOLL_ASSIGN(const Path path, device.paths().find(peer));
  Way way;
  way.attributes = address_vector(device.port(), peer, path);
  way.mtu = path.mtu;
  way.handle.reset(ibv_create_ah(device.domain(), &way.attributes));
  if (way.handle) return way;
  return fail(is_unreachable(errno) ? ErrorCode::kPeerFailed : ErrorCode::kSystem, "{}",
              std::strerror(errno));
}

}  // namespace ibcoll::verbs
