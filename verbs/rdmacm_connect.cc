#include "verbs/rdmacm_connect.h"

#if IBCOLL_HAVE_RDMACM

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/log.h"
#include "engine/base/unique_fd.h"

namespace ibcoll::verbs {

namespace {

constexpr int kBacklog = 1024;
constexpr int kResolveMs = 1000;
/// A request without an answer is given up for a new one: an answer that got lost is not repeated,
/// and the kernel waits a minute for it.
constexpr int64_t kPatienceNs = 10'000'000'000;

using ChannelPtr = std::unique_ptr<rdma_event_channel, Destroyer<rdma_destroy_event_channel>>;
using IdPtr = std::unique_ptr<rdma_cm_id, Destroyer<rdma_destroy_id>>;

/// Why a request was turned down that the peer itself, not its kernel, answered (the
/// InfiniBand specification's "consumer defined").
constexpr int kTurnedDown = 28;
/// Says with that: this rank's own request is on its way.
constexpr uint8_t kMineCounts = 1;

/// Travels with a request for a connection.
struct ConnectRequest {
  uint64_t job = 0;
  int32_t from = -1;
  int32_t to = -1;
};

/// The IP address that a RoCE port's GID stands for.
sockaddr_storage ip_of(const uint8_t (&gid)[16], uint16_t port) {
  sockaddr_storage result{};
  in6_addr address{};
  std::memcpy(address.s6_addr, gid, sizeof gid);
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    auto& ip = reinterpret_cast<sockaddr_in&>(result);
    ip.sin_family = AF_INET;
    ip.sin_port = htons(port);
    std::memcpy(&ip.sin_addr, gid + 12, 4);
  } else {
    auto& ip = reinterpret_cast<sockaddr_in6&>(result);
    ip.sin6_family = AF_INET6;
    ip.sin6_port = htons(port);
    ip.sin6_addr = address;
  }
  return result;
}

sockaddr* generic(sockaddr_storage& address) { return reinterpret_cast<sockaddr*>(&address); }

/// Either rank of a pair may ask the other for the connection. Where both do at once the lower
/// rank's request counts: it turns the other's down, and the higher one drops its own to take it.
class CmConnector final : public Connector {
 public:
  static Result<std::unique_ptr<Connector>> create(const Device& device, Responder& responder,
                                                   const RetryOptions& retry) {
    const PortInfo& port = device.port();
    if (!port.ethernet || port.gid_type != "RoCE v2")
      return fail(ErrorCode::kUnsupported,
                  "IBCOLL_CONNECT=rdmacm needs a RoCE v2 port, {} is one of {}", port.name(),
                  port.gid_type);
    std::unique_ptr<CmConnector> result(new CmConnector(device, responder, retry));
    IBCOLL_TRY(result->prepare());
    result->channel_.reset(rdma_create_event_channel());
    if (!result->channel_ || fcntl(result->channel_->fd, F_SETFL, O_NONBLOCK) < 0)
      return fail_errno("IBCOLL_CONNECT=rdmacm: no channel for connection events");
    result->events_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
    epoll_event wanted{};
    wanted.events = EPOLLIN | EPOLLET;  // readable once, whoever then reads the events
    if (!result->events_.valid() ||
        epoll_ctl(result->events_.get(), EPOLL_CTL_ADD, result->channel_->fd, &wanted) != 0)
      return fail_errno("IBCOLL_CONNECT=rdmacm: connection events can't be waited for");
    IBCOLL_ASSIGN(result->listener_, result->new_id(-1));
    sockaddr_storage own = result->own_ip();
    if (rdma_bind_addr(result->listener_.get(), generic(own)) != 0 ||
        rdma_listen(result->listener_.get(), kBacklog) != 0)
      return fail_errno(fmt::format("{}: can't listen at {}", port.name(), port.gid_text));
    return std::unique_ptr<Connector>(std::move(result));
  }

  ~CmConnector() override {
    attempts_.clear();
    listener_.reset();
  }

  void introduce(RankAddress& address) const override {
    address.service_port = ntohs(rdma_get_src_port(listener_.get()));
  }
  int events() const override { return events_.get(); }

  Status accept(Rank, int64_t) override {
    return fail(ErrorCode::kInternal, "librdmacm makes no connections that are limited");
  }
  Status want(Rank peer, int64_t now_ns) override {
    IBCOLL_ASSIGN(Connection * connection, open(peer));
    if (connection->wanted || connection->own_ready) return {};
    connection->wanted = true;
    connection->repeat_after_ns = kFirstRepeatNs;
    asked_.push_back(peer);
    return ask(peer, *connection, now_ns);
  }

  void part(Rank peer) override {
    std::erase(asked_, peer);
    attempt(peer).reset();
    Connector::part(peer);
  }

  Status poll(int64_t now_ns) override {
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(channel_.get(), &event) == 0) IBCOLL_TRY(handle(event, now_ns));
    if (errno != EAGAIN && errno != EINTR)
      return fail_errno(fmt::format("{}: connection events can't be read", device_.port().name()));
    return {};
  }

  Status repeat(int64_t now_ns) override {
    for (size_t i = 0; i < asked_.size();) {
      const Rank peer = asked_[i];
      Connection& connection = *this->connection(peer);
      if (connection.usable() || connection.broken) {
        asked_[i] = asked_.back();
        asked_.pop_back();
        continue;
      }
      if (attempt(peer) && !connection.own_ready && now_ns - connection.asked_at_ns >= kPatienceNs)
        attempt(peer).reset();
      if (!attempt(peer) && now_ns >= connection.repeat_at_ns) {
        put_off(connection, now_ns);
        IBCOLL_TRY(ask(peer, connection, now_ns));
      }
      IBCOLL_TRY(look_after(peer, connection, now_ns));
      ++i;
    }
    return {};
  }

 private:
  using Connector::Connector;

  Result<IdPtr> new_id(Rank peer) {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(channel_.get(), &id, reinterpret_cast<void*>(intptr_t{peer}), RDMA_PS_TCP) !=
        0)
      return fail_errno("librdmacm makes no connection (is /dev/infiniband/rdma_cm there?)");
    return IdPtr(id);
  }
  sockaddr_storage own_ip() const {
    uint8_t gid[16];
    std::memcpy(gid, device_.port().gid.raw, sizeof gid);
    return ip_of(gid, 0);
  }

  IdPtr& attempt(Rank peer) {
    attempts_.resize(std::max(attempts_.size(), static_cast<size_t>(peer) + 1));
    return attempts_[static_cast<size_t>(peer)];
  }

  /// Looks for the way to a peer, the first step of a request.
  Status ask(Rank peer, Connection& connection, int64_t now_ns) {
    connection.asked_at_ns = now_ns;
    IBCOLL_ASSIGN(attempt(peer), new_id(peer));
    rdma_cm_id* id = attempt(peer).get();
    auto service = static_cast<uint8_t>(device_.port().traffic_class);
    if (service != 0) rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &service, 1);
    sockaddr_storage from = own_ip();
    sockaddr_storage to = ip_of(addresses().port(peer).gid, addresses().of(peer).service_port);
    if (rdma_resolve_addr(id, generic(from), generic(to), kResolveMs) == 0) return {};
    return failed(peer, connection, errno, now_ns);
  }

  /// A request came to nothing, of either side.
  Status failed(Rank peer, Connection& connection, int error, int64_t now_ns) {
    IBCOLL_TRY(drop(peer, connection));
    return bear(
        peer, connection,
        {is_unreachable(error) ? ErrorCode::kPeerFailed : ErrorCode::kSystem, std::strerror(error)},
        now_ns);
  }

  /// As if there had been no request. The peer may have given up one that this rank agreed to.
  Status drop(Rank peer, Connection& connection) {
    attempt(peer).reset();
    if (!connection.own_ready) return {};
    connection.own_ready = false;
    return connection.qp.restart(device_);
  }

  rdma_conn_param parameters(const Connection& connection) const {
    rdma_conn_param result{};
    result.responder_resources = result.initiator_depth = 1;
    result.retry_count = static_cast<uint8_t>(retry_.retries);
    result.rnr_retry_count = 7;
    result.srq = 1;
    result.qp_num = connection.qp.number();
    return result;
  }

  /// Brings the connection's queue pair to states RTR and RTS, as was agreed.
  Status make_ready(rdma_cm_id* id, Connection& connection) {
    for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
      ibv_qp_attr attributes{};
      attributes.qp_state = state;
      int mask = 0;
      if (rdma_init_qp_attr(id, &attributes, &mask) != 0)
        return fail_errno(fmt::format("{}: no way into a connection", device_.port().name()));
      if (state == IBV_QPS_RTR) {
        attributes.max_dest_rd_atomic = 1;
        attributes.path_mtu = std::min(attributes.path_mtu, device_.port().mtu);
        mask |= IBV_QP_MIN_RNR_TIMER;
      }
      IBCOLL_TRY(connection.qp.advance(device_, attributes, mask, retry_));
    }
    connection.own_ready = true;
    connection.unreachable_since_ns = 0;
    return {};
  }

  Status handle(rdma_cm_event* event, int64_t now_ns) {
    const rdma_cm_event_type type = event->event;
    const int status = event->status;
    rdma_cm_id* id = event->id;
    ConnectRequest request;
    const bool mine_counts =
        type == RDMA_CM_EVENT_REJECTED && status == kTurnedDown &&
        event->param.conn.private_data_len > 0 &&
        *static_cast<const uint8_t*>(event->param.conn.private_data) == kMineCounts;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST &&
        event->param.conn.private_data_len >= sizeof request)
      std::memcpy(&request, event->param.conn.private_data, sizeof request);
    rdma_ack_cm_event(event);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) return accept(IdPtr(id), request, now_ns);
    if (id == listener_.get())
      return fail(ErrorCode::kSystem, "{}: {}", device_.port().name(), rdma_event_str(type));
    const auto peer = static_cast<Rank>(reinterpret_cast<intptr_t>(id->context));
    Connection& connection = *this->connection(peer);
    if (connection.lost) return {};
    switch (type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        return rdma_resolve_route(id, kResolveMs) == 0 ? Status()
                                                       : failed(peer, connection, errno, now_ns);
      case RDMA_CM_EVENT_ROUTE_RESOLVED: {
        rdma_conn_param wanted = parameters(connection);
        request = {job_, me_, peer};
        wanted.private_data = &request;
        wanted.private_data_len = sizeof request;
        return rdma_connect(id, &wanted) == 0 ? Status() : failed(peer, connection, errno, now_ns);
      }
      case RDMA_CM_EVENT_CONNECT_RESPONSE:
        IBCOLL_TRY(make_ready(id, connection));
        if (rdma_establish(id) != 0) return failed(peer, connection, errno, now_ns);
        connection.peer_ready = true;
        return {};
      case RDMA_CM_EVENT_ESTABLISHED:
        connection.peer_ready = true;
        return {};
      case RDMA_CM_EVENT_ADDR_ERROR:
      case RDMA_CM_EVENT_ROUTE_ERROR:
      case RDMA_CM_EVENT_CONNECT_ERROR:
      case RDMA_CM_EVENT_UNREACHABLE:
      case RDMA_CM_EVENT_REJECTED:
        if (connection.peer_ready) return {};  // its data has come: it is content
        // A peer whose port is there and that has not answered for a minute may come late, one that
        // turned this down since its own request counts will be heard of. Whether it is dead others
        // find out.
        if (type == RDMA_CM_EVENT_UNREACHABLE || mine_counts) return drop(peer, connection);
        return failed(peer, connection,
                      type == RDMA_CM_EVENT_REJECTED ? EHOSTUNREACH  // nobody is there any more
                      : status < 0                   ? -status
                                                     : ETIMEDOUT,
                      now_ns);
      case RDMA_CM_EVENT_DISCONNECTED:
        // Before any data: the peer has given the request up that this rank agreed to.
        if (!connection.peer_ready) return drop(peer, connection);
        [[fallthrough]];
      default:  // the peer left: its queue pair says so to whoever still needs it
        log().debug("connection to rank {}: {}", peer, rdma_event_str(type));
        return {};
    }
  }

  /// A peer asks for a connection.
  Status accept(IdPtr id, const ConnectRequest& request, int64_t now_ns) {
    if (request.job != job_ || request.to != me_ || !is_rank(request.from)) {
      log().debug("a request of another job was turned down");
      rdma_reject(id.get(), nullptr, 0);
      return {};
    }
    const Rank peer = request.from;
    if (entry(peer).lost) {
      rdma_reject(id.get(), nullptr, 0);
      return {};
    }
    IBCOLL_ASSIGN(Connection * connection, open(peer));
    if (connection->own_ready || (attempt(peer) && me_ < peer)) {
      rdma_reject(id.get(), &kMineCounts, sizeof kMineCounts);
      return {};
    }
    id->context = reinterpret_cast<void*>(intptr_t{peer});
    attempt(peer) = std::move(id);
    const Status ready = make_ready(attempt(peer).get(), *connection);
    rdma_conn_param agreed = parameters(*connection);
    if (ready && rdma_accept(attempt(peer).get(), &agreed) == 0) return {};
    // The peer may have given its request up meanwhile: then it asks again, or is dead.
    const std::string reason = ready ? std::strerror(errno) : ready.error().message;
    IBCOLL_TRY(drop(peer, *connection));
    return bear(peer, *connection, {ErrorCode::kPeerFailed, reason}, now_ns);
  }

  ChannelPtr channel_;
  UniqueFd events_;
  IdPtr listener_;
  std::vector<IdPtr> attempts_;  ///< by rank; of connections that are up, what keeps them
  std::vector<Rank> asked_;
};

}  // namespace

Result<std::unique_ptr<Connector>> create_cm_connector(const Device& device, Responder& responder,
                                                       const RetryOptions& retry) {
  return CmConnector::create(device, responder, retry);
}

}  // namespace ibcoll::verbs

#else

namespace ibcoll::verbs {

Result<std::unique_ptr<Connector>> create_cm_connector(const Device&, Responder&,
                                                       const RetryOptions&) {
  return fail(ErrorCode::kUnsupported, "this build has no librdmacm for IBCOLL_CONNECT=rdmacm");
}

}  // namespace ibcoll::verbs

#endif
