#include "studies/simulate/flow_network.h"

#include <cmath>

namespace ibcoll::sim {

namespace {

/// Of a link's capacity: less is nothing.
constexpr double kLeastPart = 1e-6;

Time bucket_for(const Routes& routes) {
  Time shortest = INT64_MAX;
  for (const SimulatedLink& link : routes.links())
    shortest = std::min(shortest, link.time(1 << 16));
  return std::max<Time>(shortest / 64, 1);
}

}  // namespace

FlowNetwork::FlowNetwork(const Routes& routes, const NetworkOptions& options, uint32_t senders)
    : Network(routes, bucket_for(routes)),
      options_(options),
      interval_(options.rate_interval_ns * kPicosecondsPerNanosecond),
      links_(routes.links().size()),
      queues_(options.nic == Nic::kOneAtATime ? routes.links().size() : senders),
      link_bytes_(routes.links().size()) {
  for (size_t i = 0; i < links_.size(); ++i) links_[i].capacity = 1 / routes.links()[i].ps_per_byte;
}

void FlowNetwork::send(const NetworkMessage& message, uint32_t tag) {
  ++under_way_;
  const uint64_t packets = (message.bytes + options_.mtu_bytes - 1) / options_.mtu_bytes;
  const uint64_t bytes = message.bytes + packets * options_.header_bytes;
  if (message.control || bytes == 0) {
    const double transfer = static_cast<double>(bytes) * routes_.ps_per_byte(message.route);
    queue_.push(now() + routes_.latency(message.route) + std::llround(transfer), kDelivered, tag);
    return;
  }
  for (const uint32_t link : routes_.path(message.route)) link_bytes_[link] += bytes;
  uint32_t index;
  if (free_.empty()) {
    index = static_cast<uint32_t>(flows_.size());
    flows_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[index];
  flow.route = message.route;
  flow.tag = tag;
  flow.data_bytes = message.bytes;
  flow.bytes = bytes;
  flow.next = kNone;
  flow.queue = options_.nic == Nic::kOneAtATime ? *routes_.begin(message.route) : message.sender;
  Queue& queue = queues_[flow.queue];
  if (queue.head == kNone) {
    queue.head = queue.tail = index;
    start(index);
  } else {
    flows_[queue.tail].next = index;
    queue.tail = index;
  }
}

void FlowNetwork::touch(uint32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_.push_back(link);
}

void FlowNetwork::start(uint32_t index) {
  Flow& flow = flows_[index];
  const auto path = routes_.path(flow.route);
  flow.active = true;
  flow.left = static_cast<double>(flow.bytes);
  flow.rate = 0;
  flow.since = now();
  flow.due = INT64_MAX;
  flow.places.resize(path.size());
  for (uint32_t hop = 0; hop < path.size(); ++hop) {
    LinkState& link = links_[path[hop]];
    flow.places[hop] = static_cast<uint32_t>(link.flows.size());
    link.flows.push_back({index, hop});
    touch(path[hop]);
  }
  fresh_.push_back(index);
}

/// What comes on top of the time on the slowest link: latencies, storing and forwarding.
Time FlowNetwork::extra_time(const Flow& flow) const {
  return uncontended_time(routes_, flow.route, flow.data_bytes, options_.cut_through,
                          options_.mtu_bytes, options_.header_bytes) -
         static_cast<Time>(static_cast<double>(flow.bytes) * routes_.ps_per_byte(flow.route) + 0.5);
}

void FlowNetwork::finish(uint32_t index) {
  Flow& flow = flows_[index];
  const auto path = routes_.path(flow.route);
  for (uint32_t hop = 0; hop < path.size(); ++hop) {
    LinkState& link = links_[path[hop]];
    link.used = std::max(0.0, link.used - flow.rate);
    const OnLink moved = link.flows.back();
    link.flows[flow.places[hop]] = moved;
    flows_[moved.flow].places[moved.hop] = flow.places[hop];
    link.flows.pop_back();
    if (link.flows.empty()) link.used = 0;
    touch(path[hop]);
  }
  flow.active = false;
  queue_.push(now() + extra_time(flow), kDelivered, flow.tag);
  Queue& queue = queues_[flow.queue];
  queue.head = flow.next;
  free_.push_back(index);
  if (queue.head != kNone) start(queue.head);
}

void FlowNetwork::handle(const Event& event) {
  if (event.kind == kBalance) {
    balance_due_ = false;
    return;  // settle() follows
  }
  Flow& flow = flows_[event.index];
  if (flow.active && flow.due == now()) finish(event.index);
}

void FlowNetwork::set_rate(Flow& flow, uint32_t index, double rate) {
  if (std::abs(rate - flow.rate) <= 1e-9 * rate) return;
  for (const uint32_t link : routes_.path(flow.route)) links_[link].used += rate - flow.rate;
  flow.left = std::max(0.0, flow.left - flow.rate * static_cast<double>(now() - flow.since));
  flow.since = now();
  flow.rate = rate;
  if (rate <= 0) return;
  flow.due = now() + static_cast<Time>(std::ceil(flow.left / rate));
  queue_.push(flow.due, kFinished, index);
}

void FlowNetwork::settle() {
  if (dirty_.empty()) return;
  if (now() - balanced_ >= interval_) {
    balance();
    return;
  }
  for (const uint32_t index : fresh_) {
    Flow& flow = flows_[index];
    if (!flow.active || flow.rate > 0) continue;
    double rate = INFINITY, capacity = INFINITY;
    for (const uint32_t link : routes_.path(flow.route)) {
      rate = std::min(rate, links_[link].capacity - links_[link].used);
      capacity = std::min(capacity, links_[link].capacity);
    }
    if (rate > kLeastPart * capacity) set_rate(flow, index, rate);  // not what rounding leaves
  }
  fresh_.clear();
  if (balance_due_) return;
  balance_due_ = true;
  queue_.push(balanced_ + interval_, kBalance, 0);
}

/// All links, and through them flows, that a change at dirty links can reach.
void FlowNetwork::collect() {
  ++stamp_;
  members_.clear();
  edge_.clear();
  for (const uint32_t link : dirty_) {
    links_[link].dirty = false;
    links_[link].stamp = stamp_;
    edge_.push_back(link);
  }
  dirty_.clear();
  for (size_t i = 0; i < edge_.size(); ++i) {
    LinkState& link = links_[edge_[i]];
    link.unfixed = static_cast<uint32_t>(link.flows.size());
    for (const OnLink& on : link.flows) {
      Flow& flow = flows_[on.flow];
      if (flow.stamp == stamp_) continue;
      flow.stamp = stamp_;
      flow.fixed = false;
      members_.push_back(on.flow);
      for (const uint32_t other : routes_.path(flow.route)) {
        if (links_[other].stamp == stamp_) continue;
        links_[other].stamp = stamp_;
        edge_.push_back(other);
      }
    }
  }
}

/// Sets what links can carry: all, or with FIFO queues what head-of-line blocking leaves. An input
/// port sends a part p of its packets to each output, and meets packets of others there with the
/// probability q that they want it at the same time, at most what p leaves of it; either goes
/// first, so the port loses p q / 2 (Naruse et al. 2010, section 3.6, for any number of outputs),
/// but never more than uniform traffic does, sqrt 2 - 1 (Karol et al. 1987).
void FlowNetwork::set_capacities() {
  for (const uint32_t link : edge_) links_[link].spare = links_[link].capacity;
  if (options_.queues != Queues::kFifo) return;
  constexpr double kMostBlocked = 0.41421356;
  const auto flows_on = [&](uint32_t link) {
    return static_cast<double>(links_[link].flows.size());
  };
  for (const uint32_t link : edge_) {
    LinkState& output = links_[link];
    output.wanted = 0;
    output.chosen = 0;
    if (routes_.links()[link].from_host) continue;
    for (const OnLink& on : output.flows) {
      output.wanted += 1 / flows_on(routes_.begin(flows_[on.flow].route)[on.hop - 1]);
    }
  }
  for (const uint32_t link : edge_) {
    if (routes_.links()[link].to_host) continue;
    LinkState& input = links_[link];
    const auto next = [&](const OnLink& on) -> LinkState& {
      return links_[routes_.begin(flows_[on.flow].route)[on.hop + 1]];
    };
    const double each = 1 / flows_on(link);
    for (const OnLink& on : input.flows) next(on).chosen += each;
    double blocked = 0;
    for (const OnLink& on : input.flows) {
      blocked += each * std::max(0.0, std::min(next(on).wanted, 1.0) - next(on).chosen) / 2;
    }
    for (const OnLink& on : input.flows) next(on).chosen = 0;
    input.spare *= 1 - std::min(blocked, kMostBlocked);
  }
}

/// Fills links up evenly; when one is full, its flows have their rates, and the others go on.
void FlowNetwork::balance() {
  balanced_ = now();
  fresh_.clear();
  collect();
  set_capacities();
  const auto larger = [](const Share& a, const Share& b) {
    return a.share != b.share ? a.share > b.share : a.link > b.link;
  };
  heap_.clear();
  for (const uint32_t link : edge_) {
    if (links_[link].unfixed > 0) {
      heap_.push_back({links_[link].spare / links_[link].unfixed, link});
    }
  }
  std::make_heap(heap_.begin(), heap_.end(), larger);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), larger);
    const Share top = heap_.back();
    heap_.pop_back();
    LinkState& link = links_[top.link];
    if (link.unfixed == 0) continue;
    const double share = std::max(link.spare, 0.0) / link.unfixed;
    if (share > top.share * (1 + 1e-12)) {  // others have left it more
      heap_.push_back({share, top.link});
      std::push_heap(heap_.begin(), heap_.end(), larger);
      continue;
    }
    for (const OnLink& on : link.flows) {
      Flow& flow = flows_[on.flow];
      if (flow.fixed) continue;
      flow.fixed = true;
      for (const uint32_t other : routes_.path(flow.route)) {
        links_[other].spare -= share;
        --links_[other].unfixed;
      }
      set_rate(flow, on.flow, share);
    }
  }
}

}  // namespace ibcoll::sim
