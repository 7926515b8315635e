#include "verbs/paths.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "engine/base/log.h"

#if IBCOLL_HAVE_RDMACM
#include <infiniband/ib.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#endif

namespace ibcoll::verbs {

Result<Path> Paths::find(const PortAddress& peer) {
  Path path;
  path.lid = peer.lid;
  path.service_level = static_cast<uint8_t>(std::max(port_.service_level, 0));
  path.mtu = std::min(port_.mtu, static_cast<ibv_mtu>(peer.mtu));
  const bool routed = route_kind(port_, peer) == RouteKind::kRouted;
  if (port_.ethernet || (!routed && port_.service_level >= 0)) return path;
  if (!routed) return path_inside(peer, path);
  IBCOLL_ASSIGN(const Path told, ask_(port_, peer));
  path.lid = told.lid;
  path.mtu = std::min(path.mtu, told.mtu);
  if (port_.service_level < 0) path.service_level = told.service_level;
  return path;
}

/// Of a port in the same subnet, whose LID is known.
Result<Path> Paths::path_inside(const PortAddress& peer, Path otherwise) {
  const std::string key(reinterpret_cast<const char*>(&peer), sizeof peer);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    if (silent_) return otherwise;
  }
  const Result<Path> told = ask_(port_, peer);
  const std::lock_guard lock(mutex_);
  if (!told) {
    if (!silent_)
      log().info("{}: service level 0, since the subnet manager names none: {}", port_.name(),
                 told.error().message);
    silent_ = true;
    return otherwise;
  }
  otherwise.service_level = told->service_level;
  otherwise.mtu = std::min(otherwise.mtu, told->mtu);
  return known_.emplace(key, otherwise).first->second;
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

}  // namespace

Result<Path> ask_subnet_manager(const PortInfo& port, const PortAddress& peer) {
  const auto none = [&](const char* step) {
    return fail(ErrorCode::kPeerFailed, "no path leads to {}: {} fails", describe(peer), step);
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
  const ibv_sa_path_rec& told = id->route.path_rec[0];
  constexpr uint8_t kLeastMtu = IBV_MTU_256, kMostMtu = IBV_MTU_4096;
  return Path{ntohs(told.dlid), told.sl,
              static_cast<ibv_mtu>(std::clamp(told.mtu, kLeastMtu, kMostMtu))};
}

#else

Result<Path> ask_subnet_manager(const PortInfo&, const PortAddress& peer) {
  return fail(
      ErrorCode::kUnsupported,
      "to ask the subnet manager for the path to {} takes librdmacm, which this build lacks",
      describe(peer));
}

#endif

}  // namespace ibcoll::verbs
