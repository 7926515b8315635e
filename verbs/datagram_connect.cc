#include "verbs/datagram_connect.h"

#include <spdlog/spdlog.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ibcoll::verbs {

namespace {

constexpr uint32_t kDatagramDepth = 256;  ///< sends and receives; more arriving at once get lost
constexpr size_t kSlotBytes = 128;        ///< a datagram and its route header
constexpr size_t kRouteHeaderBytes = 40;  ///< in front of what a datagram queue pair receives
/// Guards against stray datagrams only; which job they belong to is said inside.
constexpr uint32_t kQkey = 0x1bc011;
/// A way that brought no answer for so long is looked for again: it may be gone.
constexpr int64_t kWayNs = 5'000'000'000;

}  // namespace

/// The one message: "my queue pair for you is this one".
struct DatagramConnector::Hello {
  uint64_t job = 0;
  int32_t from = -1;
  int32_t to = -1;
  uint32_t queue_pair = 0;
  uint32_t psn = 0;
  uint8_t ready = 0;       ///< my queue pair knows yours
  uint8_t need_reply = 0;  ///< I don't know yet that yours knows mine
};

Result<std::unique_ptr<Connector>> DatagramConnector::create(const Device& device,
                                                             const RetryOptions& retry,
                                                             ibv_comp_channel* channel) {
  std::unique_ptr<DatagramConnector> result(new DatagramConnector(device, retry));
  result->memory_.resize(2 * kDatagramDepth * kSlotBytes);
  result->region_ = register_region(device.domain(), result->memory_.data(), result->memory_.size(),
                                    IBV_ACCESS_LOCAL_WRITE);
  if (!result->region_)
    return registration_error(device, fmt::format("{} bytes for datagrams", result->memory_.size()),
                              errno);
  result->completions_.reset(
      ibv_create_cq(device.context(), 2 * kDatagramDepth, nullptr, channel, 0));
  if (!result->completions_)
    return fail_errno(fmt::format("{}: no completion queue", device.port().name()));
  IBCOLL_ASSIGN(result->datagrams_,
                create_datagram(device, result->completions_.get(), kDatagramDepth, kQkey));
  IBCOLL_TRY(result->fill());
  return std::unique_ptr<Connector>(std::move(result));
}

/// Makes all slots ready, of a queue pair that holds none.
Status DatagramConnector::fill() {
  free_sends_.clear();
  for (uint32_t i = 0; i < kDatagramDepth; ++i) {
    IBCOLL_TRY(post_receive(i));
    free_sends_.push_back(kDatagramDepth + i);
  }
  return {};
}

/// A datagram that can't be sent takes the queue pair out of service, with Soft-RoCE also for
/// receiving (a link that is down for a moment suffices). All that was posted comes back now.
void DatagramConnector::give_up_datagrams() {
  if (broken_) return;
  broken_ = true;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(datagrams_.get(), &attributes, IBV_QP_STATE);
}

Status DatagramConnector::post_receive(uint64_t slot) {
  ibv_sge place{reinterpret_cast<uint64_t>(memory_.data()) + slot * kSlotBytes, kSlotBytes,
                region_->lkey};
  ibv_recv_wr request{slot, nullptr, &place, 1};
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(datagrams_.get(), &request, &bad); error != 0) {
    errno = error;
    return fail_errno("no receive for datagrams");
  }
  ++posted_;
  return {};
}

/// Where datagrams for a peer go. ErrorCode::kPeerFailed: nowhere now.
Status DatagramConnector::find_way(Rank peer, Link& link) {
  ibv_ah_attr attributes = route(device_.port(), peer_address(peer).port);
  link.address.reset(ibv_create_ah(device_.domain(), &attributes));
  if (!link.address)
    return fail(is_unreachable(errno) ? ErrorCode::kPeerFailed : ErrorCode::kSystem,
                "{}: no route to rank {}: {}", device_.port().name(), peer, std::strerror(errno));
  link.unreachable_since_ns = 0;
  return {};
}

Status DatagramConnector::want(Rank peer, int64_t now_ns) {
  IBCOLL_ASSIGN(Link * link, open(peer));
  if (link->wanted || link->usable()) return {};
  link->wanted = true;
  link->repeat_after_ns = kFirstRepeatNs;
  link->repeat_at_ns = now_ns + kFirstRepeatNs;
  unanswered_.push_back(peer);
  return say_hello(peer, *link, now_ns);
}

Status DatagramConnector::say_hello(Rank peer, Link& link, int64_t now_ns) {
  if (broken_ || free_sends_.empty()) return {};  // as if the network had lost it
  if (link.address && now_ns - link.address_since_ns >= kWayNs) link.address.reset();
  if (!link.address) {
    link.address_since_ns = now_ns;
    if (const Status found = find_way(peer, link); !found) return bear(link, found.error(), now_ns);
  }
  const uint32_t slot = free_sends_.back();
  const Hello hello{
      job_, me_, peer, link.qp.number(), link.own_psn, link.own_ready, !link.peer_ready};
  std::byte* place = memory_.data() + slot * kSlotBytes;
  std::memcpy(place, &hello, sizeof hello);
  ibv_sge piece{reinterpret_cast<uint64_t>(place), sizeof hello, region_->lkey};
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud.ah = link.address.get();
  request.wr.ud.remote_qpn = peer_address(peer).datagram_number;
  request.wr.ud.remote_qkey = kQkey;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(datagrams_.get(), &request, &bad); error != 0) {
    errno = error;
    return fail_errno(
        fmt::format("{}: a datagram to rank {} can't be sent", device_.port().name(), peer));
  }
  free_sends_.pop_back();
  ++posted_;
  return {};
}

Status DatagramConnector::handle(const Hello& hello, int64_t now_ns) {
  if (hello.job != job_ || hello.to != me_ || !is_rank(hello.from)) {
    spdlog::debug("a datagram of another job was ignored");
    return {};
  }
  IBCOLL_ASSIGN(Link * link, open(hello.from));
  link->peer_ready |= hello.ready != 0;
  if (!link->own_ready) {
    const Status connected = link->qp.connect(device_, peer_address(hello.from).port,
                                              hello.queue_pair, hello.psn, link->own_psn, retry_);
    if (!connected) return bear(*link, connected.error(), now_ns);
    link->own_ready = true;
    link->repeat_at_ns = now_ns + kFirstRepeatNs;
  }
  if (hello.need_reply) return say_hello(hello.from, *link, now_ns);
  return {};
}

Status DatagramConnector::poll(int64_t now_ns) {
  std::array<ibv_wc, 16> done;
  const int count = ibv_poll_cq(completions_.get(), done.size(), done.data());
  if (count < 0)
    return fail(ErrorCode::kSystem, "{}: the datagrams' completion queue failed",
                device_.port().name());
  posted_ -= static_cast<uint32_t>(count);
  for (int i = 0; i < count; ++i) {
    const auto slot = static_cast<uint32_t>(done[i].wr_id);
    if (done[i].status != IBV_WC_SUCCESS) give_up_datagrams();
    if (slot >= kDatagramDepth) {
      free_sends_.push_back(slot);
      continue;
    }
    if (done[i].status == IBV_WC_SUCCESS && done[i].byte_len == kRouteHeaderBytes + sizeof(Hello)) {
      Hello hello;
      std::memcpy(&hello, memory_.data() + slot * kSlotBytes + kRouteHeaderBytes, sizeof hello);
      IBCOLL_TRY(handle(hello, now_ns));
    }
    if (!broken_) IBCOLL_TRY(post_receive(slot));
  }
  if (broken_ && posted_ == 0) {
    IBCOLL_TRY(start_datagram(device_, datagrams_.get(), kQkey));
    broken_ = false;
    IBCOLL_TRY(fill());
  }
  return {};
}

Status DatagramConnector::repeat(int64_t now_ns) {
  for (size_t i = 0; i < unanswered_.size();) {
    const Rank peer = unanswered_[i];
    Link& link = *this->link(peer);
    if (link.usable()) {
      unanswered_[i] = unanswered_.back();
      unanswered_.pop_back();
      continue;
    }
    if (now_ns >= link.repeat_at_ns) {
      put_off(link, now_ns);
      IBCOLL_TRY(say_hello(peer, link, now_ns));
    }
    ++i;
  }
  return {};
}

}  // namespace ibcoll::verbs
