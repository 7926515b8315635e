#include "verbs/connect.h"

#include <algorithm>
#include <random>

#include "verbs/datagram_connect.h"
#include "verbs/rdmacm_connect.h"

namespace ibcoll::verbs {

namespace {

constexpr int64_t kLastRepeatNs = 500'000'000;
constexpr uint32_t kPsnMask = 0xffffff;

}  // namespace

Result<std::unique_ptr<Connector>> Connector::create(ConnectBy by, const Device& device,
                                                     const RetryOptions& retry,
                                                     ibv_comp_channel* channel) {
  return by == ConnectBy::kRdmacm ? create_cm_connector(device, retry)
                                  : DatagramConnector::create(device, retry, channel);
}

void Connector::start(Rank me, uint64_t job, std::vector<RankAddress> addresses,
                      const Queues& queues) {
  me_ = me;
  job_ = job;
  addresses_ = std::move(addresses);
  queues_ = queues;
  links_.resize(addresses_.size());
}

Rank Connector::peer_of(uint32_t queue_pair) const {
  const auto found = by_number_.find(queue_pair);
  return found == by_number_.end() ? -1 : found->second;
}

Result<Link*> Connector::open(Rank peer) {
  std::unique_ptr<Link>& link = links_[static_cast<size_t>(peer)];
  if (link) return link.get();
  auto fresh = std::make_unique<Link>();
  IBCOLL_ASSIGN(fresh->qp, ReliableQueuePair::create(device_, queues_.sends, queues_.receives,
                                                     queues_.shared_receives));
  fresh->own_psn = std::random_device{}() & kPsnMask;
  by_number_.emplace(fresh->qp.number(), peer);
  link = std::move(fresh);
  return link.get();
}

Status Connector::bear(Link& link, const Error& error, int64_t now_ns) const {
  if (link.unreachable_since_ns == 0) link.unreachable_since_ns = now_ns;
  if (error.code == ErrorCode::kPeerFailed &&
      now_ns - link.unreachable_since_ns < retry_.unreachable_ns)
    return {};
  return tl::unexpected<Error>(error);
}

void Connector::put_off(Link& link, int64_t now_ns) const {
  link.repeat_after_ns = std::min(2 * link.repeat_after_ns, kLastRepeatNs) + me_ % 16 * 100'000;
  link.repeat_at_ns = now_ns + link.repeat_after_ns;
}

}  // namespace ibcoll::verbs
