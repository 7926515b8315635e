// What the transport does while nothing comes, and when something fails.

#include "engine/base/clock.h"
#include "ucx/transport.h"

namespace ibcoll::ucx {
namespace {

constexpr int64_t kLookNs = 50'000'000;
/// How long others get to say that a peer died whose connection broke.
constexpr int64_t kVerdictNs = 2'000'000'000;

}  // namespace

/// Every few milliseconds while somebody waits, or so.
void UcxTransport::tick(int64_t now) {
  if (suspect_ && !failure_ && now >= suspect_->since_ns + kVerdictNs) latch(suspect_->failure);
  if (now < next_look_ns_ || ended()) return;
  next_look_ns_ = now + kLookNs;
  lifelines_->accept();
  look_after_silent(now);
}

/// A peer from which nothing came for long is dead, out of reach, or just late.
void UcxTransport::look_after_silent(int64_t now) {
  for (Peer* peer : known_) {
    if (peer->owes_credit()) send_credit(*peer);
    if (peer->heard) {
      peer->heard = peer->probed = false;
      lifelines_->heard(peer->rank);
      peer->silent_since_ns = now;
      continue;
    }
    if (now - peer->silent_since_ns < options_.probe_after_ns) continue;
    if (!peer->probed) {
      // Where a network notices by itself that nobody is there, it does so when something is sent.
      peer->probed = true;
      ++probes_;
      send_credit(*peer);
    }
    switch (lifelines_->look(peer->rank, now)) {
      case Lifelines::State::kUnknown:
        break;
      case Lifelines::State::kThere:
        break;
      case Lifelines::State::kGone:
        suspect(Failure{peer->rank, ErrorCode::kPeerFailed,
                        fmt::format("rank {} found the process of rank {} gone", me_, peer->rank)});
        break;
      case Lifelines::State::kSilent:
        latch(Failure{
            peer->rank, ErrorCode::kPeerFailed,
            fmt::format("rank {} could not reach rank {}: its machine did not answer for {:.1f} s",
                        me_, peer->rank, static_cast<double>(options_.unreachable_ns) / 1e9)});
        break;
    }
  }
}

void UcxTransport::latch(Failure failure) {
  if (!failure_ && !closing_) failure_ = std::move(failure);
}

void UcxTransport::latch(const Status& status) {
  if (!status) [[unlikely]]
    latch(
        Failure{me_, status.error().code, fmt::format("rank {}: {}", me_, status.error().message)});
}

void UcxTransport::suspect(Failure failure) {
  if (!suspect_ && !closing_) suspect_ = {std::move(failure), now_ns()};
}

void UcxTransport::latch_broken(Peer& peer, ucs_status_t status) {
  peer.broken = true;
  suspect(Failure{peer.rank, ErrorCode::kPeerFailed,
                  fmt::format("rank {}: the connection to rank {} broke: {}", me_, peer.rank,
                              ucp_->status_string(status))});
}

void UcxTransport::on_broken(void* argument, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(argument);
  peer.owner->latch_broken(peer, status);
}

}  // namespace ibcoll::ucx
