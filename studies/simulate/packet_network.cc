#include "studies/simulate/packet_network.h"

namespace ibcoll::sim {

namespace {

/// Long enough for a handful of packets' ends, short against one.
Time bucket_for(const Routes& routes, const NetworkOptions& options) {
  Time shortest = INT64_MAX;
  for (const SimulatedLink& link : routes.links()) {
    shortest = std::min(shortest, link.time(options.mtu_bytes + options.header_bytes));
  }
  return std::max<Time>(shortest / 16, 1);
}

}  // namespace

PacketNetwork::PacketNetwork(const Routes& routes, const NetworkOptions& options, uint32_t senders)
    : Network(routes, bucket_for(routes, options)),
      options_(options),
      lanes_(routes.lanes()),
      random_(options.seed),
      nic_(routes, options, senders) {
  const auto links = routes.links();
  const uint32_t full_bytes = options.mtu_bytes + options.header_bytes;
  ports_.resize(links.size());
  link_bytes_.resize(links.size());
  switches_.resize(routes.nodes());
  channels_.resize(links.size() * lanes_);
  for (uint32_t link = 0; link < links.size(); ++link) {
    const SimulatedLink& wire = links[link];
    Port& port = ports_[link];
    port.full_time = wire.time(full_bytes);
    if (!wire.from_host) {
      Switch& from = switches_[wire.from];
      port.at_switch = wire.from;
      port.output = from.outputs++;
      from.output_link.push_back(link);
    }
    // A packet on its way, its credit on its way back, and what is sent meanwhile.
    const Time packet = std::max<Time>(port.full_time, 1);
    const Time round_trip = 2 * wire.latency + 2 * packet;
    room_.push_back(static_cast<uint32_t>(
        std::max<Time>(options.buffer_packets, (round_trip + packet - 1) / packet + 1)));
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      freed_first_.push_back(freed_.size());
      if (!wire.to_host) freed_.resize(freed_.size() + room_.back());
    }
    if (wire.to_host) continue;
    Switch& to = switches_[wire.to];
    for (uint32_t lane = 0; lane < lanes_; ++lane)
      channels_[channel_of(link, lane)].input = to.inputs;
    ++to.inputs;
    to.input_link.push_back(link);
  }
  size_t lists = 0, filled = 0, idle = 0;
  for (Switch& node : switches_) {
    node.input_words = (node.inputs + 63) / 64;
    node.output_words = (node.outputs + 63) / 64;
    node.first_list = lists;
    node.first_filled = filled;
    node.first_idle = idle;
    if (options.queues != Queues::kVirtual) continue;
    lists += static_cast<size_t>(lanes_) * node.inputs * node.outputs;
    filled += static_cast<size_t>(lanes_) * node.inputs * node.output_words;
    idle += static_cast<size_t>(lanes_) * node.input_words;
  }
  virtual_queues_.resize(lists);
  filled_bits_.resize(filled);
  idle_bits_.resize(idle, ~uint64_t{0});
  grant_.resize(options.queues == Queues::kVirtual ? channels_.size() : 0, kNone);
  size_t words = 0;
  for (uint32_t link = 0; link < links.size(); ++link) {
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      request_first_.push_back(words);
      if (!links[link].from_host) words += switches_[links[link].from].input_words;
    }
  }
  request_bits_.resize(words);
}

void PacketNetwork::send(const NetworkMessage& message, uint32_t tag) {
  ++under_way_;
  nic_.add(message, tag);
  mark(*routes_.begin(message.route));
}

void PacketNetwork::handle(const Event& event) {
  switch (event.kind) {
    case kArrived:
      arrive(event.index);
      break;
    case kSent: {
      Port& port = ports_[event.index];
      port.busy = false;
      if (port.reading != kNone) {
        input_free(port.reading);
        port.reading = kNone;
      }
      mark(event.index);
      break;
    }
    case kRead:
      input_free(event.index);
      break;
    case kCredit:
      channels_[event.index].credit_due = false;
      mark(event.index / lanes_);
      break;
    case kDue:
      mark(event.index);
      break;
  }
}

void PacketNetwork::append(List& list, uint32_t packet) {
  packets_[packet].next = kNone;
  if (list.head == kNone) {
    list.head = packet;
  } else {
    packets_[list.tail].next = packet;
  }
  list.tail = packet;
}

uint32_t PacketNetwork::remove_first(List& list) {
  const uint32_t packet = list.head;
  list.head = packets_[packet].next;
  return packet;
}

uint32_t PacketNetwork::new_packet() {
  if (free_packet_ == kNone) {
    packets_.emplace_back();
    return static_cast<uint32_t>(packets_.size() - 1);
  }
  const uint32_t packet = free_packet_;
  free_packet_ = packets_[packet].next;
  return packet;
}

/// A packet is in the buffer of a switch and may leave it.
void PacketNetwork::arrive(uint32_t index) {
  Packet& packet = packets_[index];
  const uint32_t next = packet.link[1];
  if (options_.queues == Queues::kOutput) {
    ++packet.link;
    append(channels_[channel_of(next, packet.lane)].waiting, index);
    mark(next);
    return;
  }
  const uint32_t from = channel_of(*packet.link, packet.lane);
  Channel& channel = channels_[from];
  if (options_.queues == Queues::kFifo) {
    const bool first = channel.waiting.head == kNone;
    append(channel.waiting, index);
    if (first && !channel.being_read) ask(from);
    return;
  }
  const Port& output = ports_[next];
  const Switch& node = switches_[output.at_switch];
  const size_t row = static_cast<size_t>(packet.lane) * node.inputs + channel.input;
  append(virtual_queues_[node.first_list + row * node.outputs + output.output], index);
  filled_bits_[node.first_filled + row * node.output_words + output.output / 64] |=
      uint64_t{1} << output.output % 64;
  requests(channel_of(next, packet.lane))[channel.input / 64] |= uint64_t{1} << channel.input % 64;
  if (!channel.being_read) mark(next);
}

/// The first packet of a FIFO asks for the link it wants to leave on.
void PacketNetwork::ask(uint32_t channel) {
  const Packet& packet = packets_[channels_[channel].waiting.head];
  const uint32_t next = packet.link[1], input = channels_[channel].input;
  requests(channel_of(next, packet.lane))[input / 64] |= uint64_t{1} << input % 64;
  mark(next);
}

/// A packet has been read out of an input buffer: its room goes back, the next one may leave.
void PacketNetwork::input_free(uint32_t index) {
  Channel& channel = channels_[index];
  channel.being_read = false;
  give_back(index);
  if (options_.queues == Queues::kFifo) {
    if (channel.waiting.head != kNone) ask(index);
    return;
  }
  const Switch& node = switches_[routes_.links()[index / lanes_].to];
  const uint32_t lane = index % lanes_;
  idle_bits_[node.first_idle + static_cast<size_t>(lane) * node.input_words + channel.input / 64] |=
      uint64_t{1} << channel.input % 64;
  const size_t row = static_cast<size_t>(lane) * node.inputs + channel.input;
  for (uint32_t word = 0; word < node.output_words; ++word) {
    uint64_t bits = filled_bits_[node.first_filled + row * node.output_words + word];
    for (; bits != 0; bits &= bits - 1) {
      mark(node.output_link[word * 64 + std::countr_zero(bits)]);
    }
  }
}

void PacketNetwork::give_back(uint32_t index) {
  Channel& channel = channels_[index];
  const uint32_t link = index / lanes_;
  const Time there = now() + routes_.links()[link].latency;
  freed_[freed_first_[index] + channel.freed++ % room_[link]] = there;
  if (!channel.wants_credit) return;
  channel.wants_credit = false;
  channel.credit_due = true;
  queue_.push(there, kCredit, index);
}

/// Whether one more packet may be sent into the buffer behind a link. If not, an event will come
/// when it may.
bool PacketNetwork::has_room(uint32_t index) {
  const uint32_t link = index / lanes_;
  if (routes_.links()[link].to_host || options_.queues == Queues::kOutput) return true;
  Channel& channel = channels_[index];
  const uint32_t room = room_[link];
  if (channel.sent - channel.back < room) return true;
  const Time* freed = freed_.data() + freed_first_[index];
  while (channel.back != channel.freed && freed[channel.back % room] <= now()) ++channel.back;
  if (channel.sent - channel.back < room) return true;
  if (channel.credit_due) return false;
  if (channel.back == channel.freed) {
    channel.wants_credit = true;
  } else {
    channel.credit_due = true;
    queue_.push(freed[channel.back % room], kCredit, index);
  }
  return false;
}

/// Sends a packet on a link that is free; `from` is the channel out of whose buffer it is read.
void PacketNetwork::transmit(uint32_t link, uint32_t index, uint32_t from) {
  Packet& packet = packets_[index];
  const SimulatedLink& wire = routes_.links()[link];
  Port& port = ports_[link];
  const uint32_t full = options_.mtu_bytes + options_.header_bytes;
  const Time duration = packet.bytes == full ? port.full_time : wire.time(packet.bytes);
  port.busy = true;
  link_bytes_[link] += packet.bytes;
  queue_.push(now() + duration, kSent, link);
  if (from != kNone) {
    channels_[from].being_read = true;
    const SimulatedLink& input = routes_.links()[from / lanes_];
    if (input.ps_per_byte < wire.ps_per_byte) {
      queue_.push(now() + input.time(packet.bytes), kRead, from);
    } else {
      port.reading = from;
    }
  }
  const Time head = now() + wire.latency, tail = head + duration;
  if (wire.to_host) {
    if (packet.last) queue_.push(tail, kDelivered, packet.tag);
    packet.next = free_packet_;
    free_packet_ = index;
    return;
  }
  ++channels_[channel_of(link, packet.lane)].sent;
  Time ready = tail;
  if (options_.cut_through) {
    const SimulatedLink& next = routes_.links()[packet.link[1]];
    ready = next.ps_per_byte < wire.ps_per_byte ? tail - next.time(packet.bytes) : head;
  }
  queue_.push(ready, kArrived, index);
}

}  // namespace ibcoll::sim
