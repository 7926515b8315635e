#include "verbs/datagram_connect.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/log.h"

namespace ibcoll::verbs {

Result<std::unique_ptr<Connector>> DatagramConnector::create(const Device& device,
                                                             Responder& responder,
                                                             const RetryOptions& retry,
                                                             ibv_comp_channel* channel) {
  std::unique_ptr<DatagramConnector> result(new DatagramConnector(device, responder, retry));
  IBCOLL_TRY(result->prepare());
  IBCOLL_ASSIGN(result->datagrams_, Datagrams::create(device, channel));
  return std::unique_ptr<Connector>(std::move(result));
}

Status DatagramConnector::want(Rank peer, int64_t now_ns) {
  Connection* connection = &entry(peer);
  if (slots_ == nullptr || slots_->has_slot(peer)) {
    IBCOLL_ASSIGN(connection, open(peer));
  }
  if (connection->wanted || connection->usable()) return {};
  connection->wanted = true;
  connection->repeat_after_ns = kFirstRepeatNs;
  connection->repeat_at_ns = now_ns + kFirstRepeatNs;
  unanswered_.push_back(peer);
  return say_hello(peer, *connection, now_ns);
}

Status DatagramConnector::accept(Rank peer, int64_t now_ns) {
  const auto offer = offers_.find(peer);
  if (offer == offers_.end())
    return fail(ErrorCode::kInternal, "rank {} has made no offer of a connection", peer);
  const Hello hello = offer->second;
  offers_.erase(offer);
  IBCOLL_TRY(handle(hello, now_ns));
  // The answer may get lost: it is repeated as who wants the connection does.
  return want(peer, now_ns);
}

void DatagramConnector::close(Rank peer) {
  std::erase(unanswered_, peer);
  if (const auto held = held_.find(peer); held != held_.end()) held->second.say = false;
  Connector::close(peer);
}

void DatagramConnector::part(Rank peer) {
  std::erase(unanswered_, peer);
  held_.erase(peer);
  offers_.erase(peer);
  Connector::part(peer);
}

Status DatagramConnector::say_hello(Rank peer, Connection& connection, int64_t now_ns) {
  const Result<const Way*> found = way(peer, connection, now_ns);
  if (!found) return bear(peer, connection, found.error(), now_ns);
  if (*found == nullptr) {
    held_[peer].say = true;
    return {};
  }
  const Hello hello{job_,
                    me_,
                    peer,
                    connection.qp.get() != nullptr ? connection.qp.number() : 0,
                    connection.own_psn,
                    connection.closed,
                    connection.own_ready,
                    !connection.peer_ready,
                    static_cast<uint8_t>((*found)->mtu)};
  // Without room it is as if the network had lost it.
  IBCOLL_TRY(datagrams_->send((*found)->handle.get(), addresses().of(peer).datagram_number,
                              std::as_bytes(std::span(&hello, 1))));
  return {};
}

Status DatagramConnector::handle(const Hello& hello, int64_t now_ns) {
  if (hello.job != job_ || hello.to != me_ || !is_rank(hello.from)) {
    log().debug("a datagram of another job was ignored");
    return {};
  }
  if (const Connection* const known = connection(hello.from); known != nullptr && known->lost)
    return {};
  if (slots_ != nullptr && is_to_wait(hello)) return {};
  IBCOLL_ASSIGN(Connection * connection, open(hello.from));
  connection->peer_ready |= hello.ready != 0;
  if (!connection->own_ready) {
    const Result<const Way*> found = way(hello.from, *connection, now_ns);
    if (!found) return bear(hello.from, *connection, found.error(), now_ns);
    if (*found == nullptr) {
      held_[hello.from].heard = hello;
      return {};
    }
    const Way agreed{
        (*found)->attributes, std::min((*found)->mtu, static_cast<ibv_mtu>(hello.mtu)), {}};
    const Status connected = connection->qp.connect(device_, agreed, hello.queue_pair, hello.psn,
                                                    connection->own_psn, retry_);
    if (!connected) return bear(hello.from, *connection, connected.error(), now_ns);
    connection->own_ready = true;
    connection->repeat_at_ns = now_ns + kFirstRepeatNs;
  }
  if (hello.need_reply) return say_hello(hello.from, *connection, now_ns);
  return {};
}

/// Whether there is nothing to be done now for what a peer says: it comes late, or is a matter of
/// slots first.
bool DatagramConnector::is_to_wait(const Hello& hello) {
  const Rank peer = hello.from;
  const int32_t ahead = static_cast<int32_t>(hello.closed - entry(peer).closed);
  if (ahead > 0) held_[peer].heard = hello;
  if (ahead != 0) return true;
  // Words may come twice, of which the slots take no notice.
  using Word = ConnectionSlots::Word;
  const bool has_slot = slots_->has_slot(peer), asks = hello.queue_pair == 0;
  if (asks || !has_slot) {
    if (has_slot || asks != (me_ < peer)) return true;
    if (!asks) offers_[peer] = hello;
    (void)slots_->heard(peer, asks ? Word::kAsk : Word::kOffer);
    return true;
  }
  if (me_ < peer) (void)slots_->heard(peer, Word::kAccept);
  return false;
}

Status DatagramConnector::poll(int64_t now_ns) {
  IBCOLL_TRY(datagrams_->poll([&](std::span<const std::byte> bytes) -> Status {
    Hello hello;
    if (bytes.size() != sizeof hello) return {};
    std::memcpy(&hello, bytes.data(), sizeof hello);
    return handle(hello, now_ns);
  }));
  return take_up_held(now_ns);
}

/// Whose way is still being looked for is held again.
Status DatagramConnector::take_up_held(int64_t now_ns) {
  for (const auto& [peer, held] : std::exchange(held_, {})) {
    if (held.heard) IBCOLL_TRY(handle(*held.heard, now_ns));
    if (held.say) IBCOLL_TRY(say_hello(peer, *connection(peer), now_ns));
  }
  return {};
}

Status DatagramConnector::repeat(int64_t now_ns) {
  for (size_t i = 0; i < unanswered_.size();) {
    const Rank peer = unanswered_[i];
    Connection& connection = *this->connection(peer);
    if (connection.usable() || connection.broken) {
      unanswered_[i] = unanswered_.back();
      unanswered_.pop_back();
      continue;
    }
    if (now_ns >= connection.repeat_at_ns) {
      put_off(connection, now_ns);
      IBCOLL_TRY(say_hello(peer, connection, now_ns));
    }
    IBCOLL_TRY(look_after(peer, connection, now_ns));
    ++i;
  }
  return {};
}

}  // namespace ibcoll::verbs
