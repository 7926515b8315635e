#include "verbs/route.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#if IBCOLL_HAVE_RDMACM
#include <infiniband/ib.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#endif

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

ibv_ah_attr address_vector(const PortInfo& port, const PortAddress& peer, uint16_t lid) {
  ibv_ah_attr attributes{};
  attributes.dlid = lid;
  attributes.sl = static_cast<uint8_t>(port.service_level);
  attributes.port_num = static_cast<uint8_t>(port.port);
  if (route_kind(port, peer) == RouteKind::kLocal) return attributes;
  attributes.is_global = 1;
  std::memcpy(attributes.grh.dgid.raw, peer.gid, sizeof peer.gid);
  attributes.grh.sgid_index = static_cast<uint8_t>(port.gid_index);
  attributes.grh.hop_limit = kHopLimit;
  attributes.grh.traffic_class = static_cast<uint8_t>(port.traffic_class);
  return attributes;
}

Result<AddressHandle> find_way(const Device& device, const PortAddress& peer) {
  IBCOLL_ASSIGN(ibv_ah_attr attributes, find_route(device.port(), peer));
  AddressHandle way(ibv_create_ah(device.domain(), &attributes));
  if (way) return way;
  return fail(is_unreachable(errno) ? ErrorCode::kPeerFailed : ErrorCode::kSystem, "{}",
              std::strerror(errno));
}

#if IBCOLL_HAVE_RDMACM

namespace {

constexpr int kQueryMs = 1000;

using ChannelPtr = std::unique_ptr<rdma_event_channel, Destroyer<rdma_destroy_event_channel>>;
using IdPtr = std::unique_ptr<rdma_cm_id, Destroyer<rdma_destroy_id>>;

sockaddr_ib ib_address(const uint8_t (&gid)[16], uint16_t pkey) {
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_pkey = pkey;
  std::memcpy(&address.sib_addr, gid, sizeof gid);
  address.sib_sid = htobe64(RDMA_IB_IP_PS_UDP);
  address.sib_sid_mask = htobe64(RDMA_IB_IP_PS_MASK);
  return address;
}

/// Whether the next event of a channel is the one wanted.
bool comes(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  pollfd file{channel->fd, POLLIN, 0};
  rdma_cm_event* event = nullptr;
  if (::poll(&file, 1, 2 * kQueryMs) != 1 || rdma_get_cm_event(channel, &event) != 0) return false;
  const bool right = event->event == wanted;
  rdma_ack_cm_event(event);
  return right;
}

/// The LID of the router towards a peer in another subnet: that of the path which the subnet
/// manager gives. librdmacm asks it, since programs without privileges can't.
Result<uint16_t> router_lid(const PortInfo& port, const PortAddress& peer) {
  const auto none = [&](const char* step) {
    return fail(ErrorCode::kPeerFailed, "no router leads to {}: {} fails", describe(peer), step);
  };
  const ChannelPtr channel(rdma_create_event_channel());
  rdma_cm_id* made = nullptr;
  if (!channel || rdma_create_id(channel.get(), &made, nullptr, RDMA_PS_UDP) != 0)
    return none("librdmacm (is /dev/infiniband/rdma_cm there?)");
  const IdPtr id(made);
  sockaddr_ib from = ib_address(address_of(port).gid, port.pkey);
  sockaddr_ib to = ib_address(peer.gid, port.pkey);
  if (rdma_resolve_addr(id.get(), reinterpret_cast<sockaddr*>(&from),
                        reinterpret_cast<sockaddr*>(&to), kQueryMs) != 0 ||
      !comes(channel.get(), RDMA_CM_EVENT_ADDR_RESOLVED))
    return none("resolving the address");
  if (rdma_resolve_route(id.get(), kQueryMs) != 0 ||
      !comes(channel.get(), RDMA_CM_EVENT_ROUTE_RESOLVED) || id->route.num_paths < 1)
    return none("asking the subnet manager for the path");
  return ntohs(id->route.path_rec[0].dlid);
}

}  // namespace

#else

namespace {

Result<uint16_t> router_lid(const PortInfo&, const PortAddress& peer) {
  return fail(ErrorCode::kUnsupported,
              "{} is in another subnet: to find its router takes librdmacm, which this build lacks",
              describe(peer));
}

}  // namespace

#endif

Result<ibv_ah_attr> find_route(const PortInfo& port, const PortAddress& peer) {
  uint16_t lid = peer.lid;
  if (route_kind(port, peer) == RouteKind::kRouted) {
    IBCOLL_ASSIGN(lid, router_lid(port, peer));
  }
  return address_vector(port, peer, lid);
}

}  // namespace ibcoll::verbs
