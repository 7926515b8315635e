#include "studies/simulate/network.h"

#include "studies/simulate/flow_network.h"
#include "studies/simulate/packet_network.h"

namespace ibcoll::sim {

Result<std::unique_ptr<Network>> Network::create(const Routes& routes,
                                                 const NetworkOptions& options, uint32_t senders) {
  constexpr uint32_t kMostMtuBytes = 1 << 24, kMostBuffer = 1 << 16;
  if (options.mtu_bytes < 1 || options.mtu_bytes > kMostMtuBytes) {
    return fail(ErrorCode::kInvalidArgument, "packets of {} bytes: must be 1 to {}",
                options.mtu_bytes, kMostMtuBytes);
  }
  if (options.header_bytes > kMostMtuBytes) {
    return fail(ErrorCode::kInvalidArgument, "headers of {} bytes: must be at most {}",
                options.header_bytes, kMostMtuBytes);
  }
  if (options.buffer_packets < 1 || options.buffer_packets > kMostBuffer) {
    return fail(ErrorCode::kInvalidArgument, "buffers of {} packets: must be 1 to {}",
                options.buffer_packets, kMostBuffer);
  }
  if (options.level == Level::kFlow) {
    return std::make_unique<FlowNetwork>(routes, options, senders);
  }
  return std::make_unique<PacketNetwork>(routes, options, senders);
}

Status Network::run(NetworkClient& client, Time until) {
  client_ = &client;
  stopped_ = false;
  settle();
  while (!queue_.empty() && !stopped_) {
    const Time time = queue_.next_time();
    if (time > until) {
      now_ = until;
      return {};
    }
    now_ = time;
    do {
      const Event event = queue_.pop();
      ++events_;
      if (event.kind >= kFirstOwnKind) {
        handle(event);
      } else if (event.kind == kWake) {
        client.woken(event.index);
      } else {
        --under_way_;
        client.delivered(event.index);
      }
    } while (!queue_.empty() && queue_.next_time() == time);
    client.moment_over();
    settle();
  }
  if (stopped_ || under_way_ == 0) return {};
  return fail(ErrorCode::kInternal, "{} messages are stuck in the network", under_way_);
}

const char* to_string(Level level) { return level == Level::kPacket ? "packet" : "flow"; }

const char* to_string(Queues queues) {
  return queues == Queues::kFifo ? "fifo" : queues == Queues::kVirtual ? "voq" : "output";
}

const char* to_string(Arbiter arbiter) {
  return arbiter == Arbiter::kRoundRobin ? "round-robin" : "random";
}

const char* to_string(Nic nic) {
  return nic == Nic::kRandom ? "random" : nic == Nic::kRoundRobin ? "round-robin" : "one-at-a-time";
}

namespace {

/// The one of `values` that prints as `text`.
template <class T>
Result<T> parse_one(std::string_view text, std::initializer_list<T> values, const char* what) {
  std::string names;
  for (const T value : values) {
    if (text == to_string(value)) return value;
    names += names.empty() ? "" : ", ";
    names += to_string(value);
  }
  return fail(ErrorCode::kInvalidArgument, "unknown {} '{}': one of {}", what, text, names);
}

}  // namespace

Result<Level> parse_level(std::string_view text) {
  return parse_one(text, {Level::kPacket, Level::kFlow}, "level");
}

Result<Queues> parse_queues(std::string_view text) {
  return parse_one(text, {Queues::kFifo, Queues::kVirtual, Queues::kOutput}, "kind of queues");
}

Result<Arbiter> parse_arbiter(std::string_view text) {
  return parse_one(text, {Arbiter::kRoundRobin, Arbiter::kRandom}, "arbiter");
}

Result<Nic> parse_nic(std::string_view text) {
  return parse_one(text, {Nic::kRandom, Nic::kRoundRobin, Nic::kOneAtATime}, "NIC");
}

}  // namespace ibcoll::sim
