#pragma once
/// The ports by which hosts send: what waits there, and which packet goes next.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "studies/mapping/random.h"
#include "studies/simulate/network.h"

namespace ibcoll::sim {

/// All host ports of a network. Messages of one sender leave in the order they were sent; between
/// senders the NIC chooses packet by packet (NetworkOptions::nic). Control messages go first.
class PacketNic {
 public:
  /// Data of one packet that leaves.
  struct Cut {
    const uint32_t* route;
    uint32_t tag;
    uint32_t bytes;  ///< of data
    uint32_t lane;
    bool last;
  };

  PacketNic(const Routes& routes, const NetworkOptions& options, uint32_t senders);

  void add(const NetworkMessage& message, uint32_t tag);

  /// Cuts the next packet for host port `link`; `has_room(lane)` says for which lanes there is room
  /// behind the link. False if there is nothing to send there now; `later` is then when there will
  /// be, of what has a rate of its own: 0 if nothing has.
  template <class HasRoom>
  bool cut(uint32_t link, topology::FastRandom& random, Time now, HasRoom has_room, Cut& out,
           Time& later) {
    later = 0;
    Port& port = ports_[port_of_[link]];
    if (port.control.head != kNone && has_room(messages_[port.control.head].lane)) {
      take(port.control, out);
      return true;
    }
    const auto count = static_cast<uint32_t>(port.active.size());
    if (count == 0) return false;
    uint32_t at = nic_ == Nic::kRandom && count > 1 ? random.below(static_cast<int>(count))
                                                    : port.turn % count;
    for (uint32_t tried = 0; tried < count; ++tried, at = (at + 1) % count) {
      List& queue = queues_[port.active[at]];
      if (!has_room(messages_[queue.head].lane)) continue;
      if (queue.next_time > now) {
        later = later == 0 ? queue.next_time : std::min(later, queue.next_time);
        continue;
      }
      // What waits for others catches up, by some packets.
      constexpr Time kBehind = 4;
      const double packet = mtu_bytes_ * messages_[queue.head].ps_per_byte;
      const Time behind = queue.next_time < 0 ? 0 : kBehind * static_cast<Time>(packet);
      queue.next_time = std::max(queue.next_time, now - behind);
      take(queue, out);
      if (queue.head == kNone) {
        port.active.erase(port.active.begin() + at);
        port.turn = at;
      } else {
        port.turn = at + 1;
      }
      return true;
    }
    return false;
  }

 private:
  struct List {
    uint32_t head = kNone, tail = kNone;
    Time next_time = -1;  // of its first message's next packet; -1: that has not begun
  };
  struct Waiting {
    const uint32_t* route;
    uint64_t left;
    uint32_t tag;
    uint32_t lane;
    uint32_t next;
    double ps_per_byte;  // at its rate; 0: as fast as the port is
  };
  struct Port {
    List control;
    std::vector<uint32_t> active;  // queues that hold something, in the order they began to
    uint32_t turn = 0;
    uint32_t number = 0;  // among the ports of its host
  };

  /// Cuts a packet from the first message of a list.
  void take(List& list, Cut& out) {
    const uint32_t index = list.head;
    Waiting& message = messages_[index];
    const auto bytes = static_cast<uint32_t>(message.left < mtu_bytes_ ? message.left : mtu_bytes_);
    message.left -= bytes;
    list.next_time += static_cast<Time>(bytes * message.ps_per_byte);
    out = {message.route, message.tag, bytes, message.lane, message.left == 0};
    if (message.left > 0) return;
    list.head = message.next;
    message.next = free_;
    free_ = index;
  }

  const Routes& routes_;
  const Nic nic_;
  const uint32_t mtu_bytes_;
  uint32_t ports_per_host_ = 1;
  std::vector<uint32_t> port_of_;  // by link
  std::vector<Port> ports_;
  std::vector<List> queues_;  // by sender and number of the port; one at a time: by port
  std::vector<Waiting> messages_;
  uint32_t free_ = kNone;
};

}  // namespace ibcoll::sim
