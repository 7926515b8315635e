#include "verbs/connect.h"

#include <algorithm>
#include <random>

#include "engine/base/clock.h"
#include "verbs/datagram_connect.h"
#include "verbs/rdmacm_connect.h"

namespace ibcoll::verbs {

namespace {

constexpr int64_t kLastRepeatNs = 500'000'000;
constexpr uint32_t kPsnMask = 0xffffff;
/// A way that brought no answer for so long is looked for again: it may be gone.
constexpr int64_t kWayNs = 5'000'000'000;
/// Longer than a device takes to acknowledge what has come.
constexpr int64_t kGivenUpNs = 20'000'000;
/// Between two of them a rank takes some hundred completions.
constexpr uint32_t kLooksAtBroken = 64;
/// So many questions without an answer in RetryOptions::unreachable_ns mean that there is no way.
/// Counted, since a machine that stands still for a while asks none.
constexpr int kQuestions = 8;
constexpr int64_t kLeastQuestionNs = 10'000'000;
/// A peer that answers is late: it is asked less often, up to an eighth.
constexpr int kMostDoublings = 3;

}  // namespace

Result<std::unique_ptr<Connector>> Connector::create(ConnectBy by, const Device& device,
                                                     Responder& responder,
                                                     const RetryOptions& retry,
                                                     ibv_comp_channel* channel) {
  return by == ConnectBy::kRdmacm ? create_cm_connector(device, responder, retry)
                                  : DatagramConnector::create(device, responder, retry, channel);
}

void Connector::start(Rank me, uint64_t job, AddressBook addresses, const Queues& queues,
                      ConnectionSlots* slots) {
  me_ = me;
  job_ = job;
  addresses_ = std::move(addresses);
  queues_ = queues;
  slots_ = slots;
  connections_.resize(addresses_.ranks());
}

Rank Connector::peer_of(uint32_t queue_pair) const {
  const auto found = by_number_.find(queue_pair);
  return found == by_number_.end() ? -1 : found->second;
}

Status Connector::prepare() {
  IBCOLL_ASSIGN(ways_, WayFinder::create([&device = device_](const PortAddress& peer) {
                  return find_way(device, peer);
                }));
  return {};
}

Connection& Connector::entry(Rank peer) {
  if (Connection* const known = connection(peer)) return *known;
  return connections_.put(static_cast<size_t>(peer), std::make_unique<Connection>());
}

Result<Connection*> Connector::open(Rank peer) {
  Connection& connection = entry(peer);
  if (connection.qp.get() != nullptr) return &connection;
  IBCOLL_TRY(queues_.sends->make_room(device_));
  const auto create = [this] {
    return ReliableQueuePair::create(device_, queues_.sends->get(), queues_.receives,
                                     queues_.shared_receives, queues_.sends->depth());
  };
  Result<ReliableQueuePair> made = create();
  if (!made && !given_up_.empty()) {
    bury_all();
    made = create();
  }
  IBCOLL_ASSIGN(connection.qp, std::move(made));
  connection.own_psn = std::random_device{}() & kPsnMask;
  by_number_.emplace(connection.qp.number(), peer);
  return &connection;
}

void Connector::close(Rank peer) {
  Connection& connection = entry(peer);
  const uint32_t closed = connection.closed + 1;
  give_up(connection, false);
  connection = Connection{};
  connection.closed = closed;
}

void Connector::give_up(Connection& connection, bool completes) {
  by_number_.erase(connection.qp.number());
  if (!completes) queues_.sends->give_back_room();
  given_up_.push_back({std::move(connection.qp), now_ns(), completes});
}

void Connector::part(Rank peer) {
  Connection& connection = entry(peer);
  connection.lost = connection.broken = true;
  connection.wanted = false;
}

Status Connector::lose(Rank peer) {
  part(peer);
  Connection& connection = entry(peer);
  Status broken;
  if (connection.qp.get() != nullptr) {
    broken = connection.qp.break_off(device_);
    give_up(connection, true);
  }
  connection = Connection{};
  connection.lost = connection.broken = true;
  return broken;
}

void Connector::bury(int64_t now_ns) {
  std::erase_if(given_up_, [&](GivenUp& one) {
    if (now_ns - one.at_ns <= kGivenUpNs) return false;
    // Its number may be another's afterwards, and what has come by it is still to be taken.
    if (one.completes && ++one.looked_at < kLooksAtBroken) return false;
    if (one.completes) queues_.sends->give_back_room();
    return true;
  });
}

void Connector::bury_all() {
  for (const GivenUp& one : given_up_)
    if (one.completes) queues_.sends->give_back_room();
  given_up_.clear();
}

std::string Connector::both_ends(Rank peer) const {
  return fmt::format("{} ({}) to rank {} on {} ({})", device_.port().name(),
                     describe(address_of(device_.port())), peer, addresses_.port_name(peer),
                     describe(addresses_.port(peer)));
}

Status Connector::bear(Rank peer, Connection& connection, const Error& error, int64_t now_ns) {
  if (connection.unreachable_since_ns == 0) connection.unreachable_since_ns = now_ns;
  const int64_t since_ns = now_ns - connection.unreachable_since_ns;
  if (error.code == ErrorCode::kPeerFailed && since_ns < retry_.unreachable_ns) return {};
  if (error.code != ErrorCode::kPeerFailed)
    return fail(error.code, "no connection from {}: {}", both_ends(peer), error.message);
  unreached_ = peer;
  return fail(error.code, "no route from {} for {:.1f} s (IBCOLL_PORT_DOWN): {}", both_ends(peer),
              static_cast<double>(since_ns) / 1e9, error.message);
}

Result<const Way*> Connector::way(Rank peer, Connection& connection, int64_t now_ns) {
  IBCOLL_ASSIGN(const WayFinder::Found found, ways_->find(addresses_.port(peer), now_ns - kWayNs));
  if (!found) return nullptr;
  if (found != connection.way) {
    connection.way = found;
    connection.unreachable_since_ns = 0;
  }
  return found.get();
}

Result<bool> Connector::question(Rank peer, int64_t now_ns) {
  const Result<const Way*> found = way(peer, entry(peer), now_ns);
  if (!found || *found == nullptr) return true;  // as if the network had lost it
  return responder_.ask(peer, (*found)->handle.get(), addresses_.of(peer).responder_number);
}

Status Connector::look_after(Rank peer, Connection& connection, int64_t now_ns) {
  const int64_t interval = std::max(retry_.unreachable_ns / kQuestions, kLeastQuestionNs);
  if (connection.question_at_ns == 0) connection.question_at_ns = now_ns + interval;
  if (now_ns < connection.question_at_ns) return {};
  if (const uint32_t heard = responder_.heard(peer); heard != connection.heard) {
    connection.heard = heard;
    connection.questions = 0;
    connection.answers = std::min(connection.answers + 1, kMostDoublings);
  } else if (connection.questions > 0) {
    connection.answers = 0;
  }
  if (connection.questions == kQuestions) {
    unreached_ = peer;
    return fail(ErrorCode::kPeerFailed,
                "no answer from {} for {:.1f} s (IBCOLL_PORT_DOWN): are both on one network, in "
                "one partition?",
                both_ends(peer), static_cast<double>(kQuestions * interval) / 1e9);
  }
  IBCOLL_ASSIGN(const bool asked, question(peer, now_ns));
  if (asked) ++connection.questions;
  connection.question_at_ns = now_ns + (interval << connection.answers);
  return {};
}

void Connector::put_off(Connection& connection, int64_t now_ns) const {
  connection.repeat_after_ns =
      std::min(2 * connection.repeat_after_ns, kLastRepeatNs) + me_ % 16 * 100'000;
  connection.repeat_at_ns = now_ns + connection.repeat_after_ns;
}

}  // namespace ibcoll::verbs
