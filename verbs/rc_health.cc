// What the transport does while nothing comes, and when something fails.

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "verbs/rc_transport.h"

namespace ibcoll::verbs {

namespace {

constexpr int64_t kLookNs = 50'000'000;
/// How long the reason for a flushed queue pair is waited for.
constexpr int64_t kReasonNs = 200'000'000;

}  // namespace

/// Every few milliseconds while somebody waits, or so.
void RcTransport::tick(int64_t now) {
  latch(connector_->poll(now));
  latch(connector_->repeat(now));
  if (broken_ && now >= broken_at_ns_ + kReasonNs) latch(*broken_);
  if (now < next_look_ns_) return;
  next_look_ns_ = now + kLookNs;
  look_at_events(now);
  if (port_down_since_ns_ != 0 && now - port_down_since_ns_ >= options_.port_down_ns)
    latch(Failure{
        me_, ErrorCode::kSystem,
        fmt::format("rank {}: port {} has been down for {:.1f} s", me_, device_.port().name(),
                    static_cast<double>(now - port_down_since_ns_) / 1e9)});
  probe_silent(now);
}

/// A peer from which nothing came for long may be dead: a write of no bytes takes no receive and
/// fails if it is.
void RcTransport::probe_silent(int64_t now) {
  for (Peer* peer : connected_) {
    if (peer->mails_taken_here - peer->mails_reported >= kMailsPerPeer) send_credit(*peer);
    if (peer->heard || peer->send.signaled > peer->send.completed) {
      peer->heard = false;
      peer->silent_since_ns = now;
      continue;
    }
    if (now - peer->silent_since_ns < options_.probe_after_ns || !sends_->room(peer->send, 1, 0) ||
        !connector_->link(peer->send.peer)->usable())
      continue;
    peer->silent_since_ns = now;
    ++probes_;
    sends_->probe(peer->send);
  }
}

void RcTransport::look_at_events(int64_t now) {
  ibv_async_event event{};
  while (ibv_get_async_event(device_.context(), &event) == 0) {
    const char* text = ibv_event_type_str(event.event_type);
    switch (event.event_type) {
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_CQ_ERR:
      case IBV_EVENT_SRQ_ERR:
        latch(Failure{me_, ErrorCode::kSystem,
                      fmt::format("rank {}: device {}: {}", me_, device_.port().device, text)});
        break;
      case IBV_EVENT_PORT_ERR:
        if (event.element.port_num != device_.port().port) break;
        log().warn("port {} went down", device_.port().name());
        if (port_down_since_ns_ == 0) port_down_since_ns_ = now;
        break;
      case IBV_EVENT_PORT_ACTIVE:
        if (event.element.port_num == device_.port().port) port_down_since_ns_ = 0;
        break;
      default:
        // Of a queue pair: its peer is told by a completion and knows what it did.
        log().debug("{}: {}", device_.port().name(), text);
    }
    ibv_ack_async_event(&event);
  }
}

void RcTransport::latch(Failure failure) {
  if (!failure_) failure_ = std::move(failure);
}

void RcTransport::latch(const Status& status) {
  if (!status) [[unlikely]]
    latch(
        Failure{me_, status.error().code, fmt::format("rank {}: {}", me_, status.error().message)});
}

void RcTransport::latch_send_error(const ibv_wc& done) {
  const Rank to = SendQueue::peer_of(done.wr_id);
  const bool peer_gone =
      done.status == IBV_WC_RETRY_EXC_ERR || done.status == IBV_WC_RNR_RETRY_EXC_ERR;
  Failure failure{
      peer_gone ? to : me_, peer_gone ? ErrorCode::kPeerFailed : ErrorCode::kSystem,
      fmt::format("rank {} on {} could not reach rank {}: {} (vendor code {:#x})", me_,
                  device_.port().name(), to, ibv_wc_status_str(done.status), done.vendor_err)};
  if (done.status != IBV_WC_WR_FLUSH_ERR) {
    if (!peer_gone)
      failure.what =
          fmt::format("rank {} on {}: a write to rank {} failed: {} (vendor code {:#x})", me_,
                      device_.port().name(), to, ibv_wc_status_str(done.status), done.vendor_err);
    latch(std::move(failure));
  } else if (!broken_) {
    broken_ = Failure{to, ErrorCode::kPeerFailed,
                      fmt::format("rank {} on {}: the connection to rank {} broke: {}", me_,
                                  device_.port().name(), to, ibv_wc_status_str(done.status))};
    broken_at_ns_ = now_ns();
  }
}

}  // namespace ibcoll::verbs
