#include "studies/simulate/packet_nic.h"

#include <algorithm>

namespace ibcoll::sim {

PacketNic::PacketNic(const Routes& routes, const NetworkOptions& options, uint32_t senders)
    : routes_(routes), nic_(options.nic), mtu_bytes_(options.mtu_bytes) {
  std::vector<uint32_t> ports_of_node(routes.nodes());
  port_of_.resize(routes.links().size(), kNone);
  for (uint32_t link = 0; link < routes.links().size(); ++link) {
    if (!routes.links()[link].from_host) continue;
    port_of_[link] = static_cast<uint32_t>(ports_.size());
    ports_.emplace_back().number = ports_of_node[routes.links()[link].from]++;
    ports_per_host_ = std::max(ports_per_host_, ports_.back().number + 1);
  }
  queues_.resize(nic_ == Nic::kOneAtATime ? ports_.size()
                                          : static_cast<size_t>(senders) * ports_per_host_);
}

void PacketNic::add(const NetworkMessage& message, uint32_t tag) {
  const uint32_t* route = routes_.begin(message.route);
  uint32_t index = free_;
  if (index != kNone) {
    free_ = messages_[index].next;
  } else {
    index = static_cast<uint32_t>(messages_.size());
    messages_.emplace_back();
  }
  constexpr double kPicosecondsPerSecond = 1e12;
  messages_[index] = {route, message.bytes,
                      tag,   routes_.lane(message.route),
                      kNone, message.rate > 0 ? kPicosecondsPerSecond / message.rate : 0};
  const uint32_t port_index = port_of_[*route];
  Port& port = ports_[port_index];
  const uint32_t queue =
      nic_ == Nic::kOneAtATime ? port_index : message.sender * ports_per_host_ + port.number;
  List& list = message.control ? port.control : queues_[queue];
  if (list.head == kNone) {
    list.head = index;
    list.next_time = -1;
    if (!message.control) port.active.push_back(queue);
  } else {
    messages_[list.tail].next = index;
  }
  list.tail = index;
}

}  // namespace ibcoll::sim
