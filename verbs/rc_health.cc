// What the transport does while nothing comes, and when something fails.

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "verbs/rc_transport.h"

namespace ibcoll::verbs {

namespace {

constexpr int64_t kLookNs = 50'000'000;
/// How long others get to say that a peer died whose connection broke.
constexpr int64_t kVerdictNs = 2'000'000'000;
constexpr int64_t kQuestionNs = 50'000'000;

/// Whether an error may come of what happened to the peer: it died, or the way to it is gone. A
/// process that is ended loses its memory regions before its queue pairs, so writes to it may be
/// refused first.
bool may_be_of_peer(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_WR_FLUSH_ERR:
      return true;
    default:
      return false;
  }
}

}  // namespace

/// Every few milliseconds while somebody waits, or so.
void RcTransport::tick(int64_t now) {
  latch_connection(connector_->poll(now), now);
  latch_connection(connector_->repeat(now), now);
  connector_->bury(now);
  look_at_suspects(now);
  if (now < next_look_ns_) return;
  next_look_ns_ = now + kLookNs;
  look_at_events(now);
  if (own_port_.is_down() && own_port_.down_for_ns(now) >= options_.port_down_ns)
    latch(Failure{
        me_, ErrorCode::kSystem,
        fmt::format("rank {}: port {} {}", me_, device_.port().name(), own_port_.trouble(now, 0))});
  probe_silent(now);
}

/// A peer from which nothing came for long may be dead: a write of no bytes takes no receive and
/// fails if it is.
void RcTransport::probe_silent(int64_t now) {
  for (Peer* peer : connected_) {
    if (peer->last_sent) {
      look_at_closing(*peer, now);
      continue;
    }
    if (peer->mails_taken_here - peer->mails_reported >= kMailsPerPeer) send_credit(*peer);
    if (peer->heard || peer->send.signaled > peer->send.completed) {
      peer->heard = false;
      peer->silent_since_ns = now;
      continue;
    }
    if (now - peer->silent_since_ns < options_.probe_after_ns || !peer->send.room(1, 0) ||
        !connector_->connection(peer->send.peer)->usable())
      continue;
    peer->silent_since_ns = now;
    ++probes_;
    sends_.probe(peer->send);
  }
}

/// A peer that is to close its end: nothing may be sent to that any more.
void RcTransport::look_at_closing(Peer& peer, int64_t now) {
  constexpr int64_t kLongestNs = 1'000'000'000;
  const Rank rank = peer.send.peer;
  if (slots_->is_closed_by(rank)) return;
  if (!peer.last_failed)
    latch_connection(connector_->look_for(rank, now), now);
  else if (now - peer.silent_since_ns > kLongestNs)
    latch_send_error(*peer.last_failed);
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
        own_port_.went_down(now);
        break;
      case IBV_EVENT_PORT_ACTIVE:
        if (event.element.port_num == device_.port().port) own_port_.came_up(now);
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

/// Of making connections: a peer can't be reached from a port that is down.
void RcTransport::latch_connection(const Status& status, int64_t now) {
  if (status) [[likely]]
    return;
  const Error& error = status.error();
  if (error.code == ErrorCode::kPeerFailed) look_at_own_port(now);
  const std::string trouble = own_port_.trouble(now, options_.retry.unreachable_ns);
  if (error.code != ErrorCode::kPeerFailed)
    latch(status);
  else if (trouble.empty())
    suspect(connector_->unreached(),
            {me_, error.code, fmt::format("rank {}: {}", me_, error.message)}, true, now);
  else
    latch(fail(ErrorCode::kSystem, "its own port {} {}: {}", device_.port().name(), trouble,
               error.message));
}

void RcTransport::latch_send_error(const ibv_wc& done) {
  const Rank to = SendQueue::peer_of(done.wr_id);
  const char* why = ibv_wc_status_str(done.status);
  const std::string port = device_.port().name();
  const bool gone = done.status == IBV_WC_RETRY_EXC_ERR || done.status == IBV_WC_RNR_RETRY_EXC_ERR;
  Failure failure;
  if (done.status == IBV_WC_WR_FLUSH_ERR) {
    failure = {
        to, ErrorCode::kPeerFailed,
        fmt::format("rank {} on {}: the connection to rank {} broke: {}", me_, port, to, why)};
  } else if (gone) {
    failure = {to, ErrorCode::kPeerFailed,
               fmt::format("rank {} on {} could not reach rank {}: {} (vendor code {:#x})", me_,
                           port, to, why, done.vendor_err)};
  } else {
    failure = {me_, ErrorCode::kSystem,
               fmt::format("rank {} on {}: a write to rank {} failed: {} (vendor code {:#x})", me_,
                           port, to, why, done.vendor_err)};
  }
  const bool certain = done.status != IBV_WC_WR_FLUSH_ERR;
  const int64_t now = now_ns();
  if (certain) look_at_own_port(now);
  if (const std::string trouble = own_port_.trouble(now, longest_patience_ns(options_.retry));
      !trouble.empty() && (gone || done.status == IBV_WC_LOC_QP_OP_ERR))
    failure = {me_, ErrorCode::kSystem,
               fmt::format("rank {}: its own port {} {}: rank {} could not be reached: {}", me_,
                           port, trouble, to, why)};
  if (!may_be_of_peer(done.status)) {
    latch(std::move(failure));
    return;
  }
  suspect(to, std::move(failure), certain, now);
}

/// `certain`: no better reason for the failure will come.
void RcTransport::suspect(Rank peer, Failure failure, bool certain, int64_t now) {
  const auto known = std::ranges::find(suspects_, peer, &Suspect::peer);
  if (known == suspects_.end()) {
    suspects_.push_back({peer, std::move(failure), certain, now, now, responder_->heard(peer)});
    has_suspects_ = true;
    connector_->connection(peer)->broken = true;
  } else if (certain && !known->certain) {
    known->failure = std::move(failure);
    known->certain = true;
  }
}

/// The state of the own port, if its event has not come yet.
void RcTransport::look_at_own_port(int64_t now) {
  look_at_events(now);
  ibv_port_attr attributes{};
  if (ibv_query_port(device_.context(), static_cast<uint8_t>(device_.port().port), &attributes) ==
          0 &&
      attributes.state != IBV_PORT_ACTIVE)
    own_port_.went_down(now);
}

/// A connection may have broken because the peer died, which others know better. One that has left
/// the job after a death, when ranks leave alone, is as good as dead.
void RcTransport::look_at_suspects(int64_t now) {
  for (Suspect& one : suspects_) {
    if (one.due) continue;
    const bool alive = responder_->heard(one.peer) != one.heard;
    const bool gone = bootstrap_->has_left(one.peer) || bootstrap_->end_of(one.peer);
    if (gone) one.failure = {one.peer, ErrorCode::kPeerFailed, one.failure.what};
    one.due = gone || (alive && one.certain) || now >= one.since_ns + kVerdictNs;
    if (one.due || alive || now < one.question_at_ns) continue;
    one.question_at_ns = now + kQuestionNs;
    one.due = !connector_->question(one.peer, now);
  }
}

std::optional<Failure> RcTransport::failure() const {
  if (failure_ || suspects_.empty()) [[likely]]
    return failure_;
  const auto due = std::ranges::find(suspects_, true, &Suspect::due);
  return due == suspects_.end() ? std::nullopt : std::optional(due->failure);
}

}  // namespace ibcoll::verbs
