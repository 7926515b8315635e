/// How the ports of a packet network choose what they send next.

#include "studies/simulate/packet_network.h"

namespace ibcoll::sim {

void PacketNetwork::settle() {
  open_.clear();
  // What departs may bring new messages to other ports: the list may grow.
  for (size_t i = 0; i < dirty_.size(); ++i) {
    const uint32_t link = dirty_[i];
    ports_[link].dirty = false;
    if (ports_[link].busy) continue;
    if (routes_.links()[link].from_host) {
      arbitrate_host(link);
    } else if (options_.queues == Queues::kOutput) {
      arbitrate_output_queue(link);
    } else if (options_.queues == Queues::kFifo) {
      arbitrate_fifo(link);
    } else {
      open_.push_back(link);
    }
  }
  dirty_.clear();
  if (!open_.empty()) match();
}

void PacketNetwork::arbitrate_host(uint32_t link) {
  PacketNic::Cut cut;
  const auto room = [&](uint32_t lane) { return has_room(channel_of(link, lane)); };
  Time later = 0;
  if (!nic_.cut(link, random_, now(), room, cut, later)) {
    if (later > 0) queue_.push(later, kDue, link);
    return;
  }
  const uint32_t index = new_packet();
  packets_[index] = {
      cut.route, cut.tag, cut.bytes + options_.header_bytes, kNone, static_cast<uint8_t>(cut.lane),
      cut.last};
  transmit(link, index, kNone);
  if (cut.last) client_->departed(cut.tag);
}

void PacketNetwork::arbitrate_output_queue(uint32_t link) {
  Port& port = ports_[link];
  for (uint32_t i = 0; i < lanes_; ++i) {
    const uint32_t lane = (port.lane_turn + i) % lanes_;
    List& waiting = channels_[channel_of(link, lane)].waiting;
    if (waiting.head == kNone) continue;
    port.lane_turn = lane + 1;
    return transmit(link, remove_first(waiting), kNone);
  }
}

void PacketNetwork::arbitrate_fifo(uint32_t link) {
  Port& port = ports_[link];
  const Switch& node = switches_[port.at_switch];
  for (uint32_t i = 0; i < lanes_; ++i) {
    const uint32_t lane = (port.lane_turn + i) % lanes_;
    const uint32_t output = channel_of(link, lane);
    uint64_t* bits = requests(output);
    const uint32_t input = choose(bits, nullptr, node.input_words, port.input_turn);
    if (input == kNone || !has_room(output)) continue;
    bits[input / 64] &= ~(uint64_t{1} << input % 64);
    port.lane_turn = lane + 1;
    port.input_turn = input + 1;
    const uint32_t from = channel_of(node.input_link[input], lane);
    const uint32_t packet = remove_first(channels_[from].waiting);
    ++packets_[packet].link;
    return transmit(link, packet, from);
  }
}

/// One of the bits set in `bits` (and `mask`): in round robin the first from `turn` on, cyclic.
uint32_t PacketNetwork::choose(const uint64_t* bits, const uint64_t* mask, uint32_t words,
                               uint32_t turn) {
  const auto word = [&](uint32_t i) { return mask == nullptr ? bits[i] : bits[i] & mask[i]; };
  if (options_.arbiter == Arbiter::kRandom) {
    int count = 0;
    for (uint32_t i = 0; i < words; ++i) count += std::popcount(word(i));
    if (count == 0) return kNone;
    int skip = count == 1 ? 0 : random_.below(count);
    for (uint32_t i = 0;; ++i) {
      uint64_t left = word(i);
      const int here = std::popcount(left);
      if (skip >= here) {
        skip -= here;
        continue;
      }
      for (; skip > 0; --skip) left &= left - 1;
      return i * 64 + std::countr_zero(left);
    }
  }
  if (turn >= words * 64) turn = 0;
  const uint32_t first = turn / 64;
  uint64_t left = word(first) & (~uint64_t{0} << turn % 64);
  for (uint32_t i = 0; i <= words; ++i) {
    const uint32_t at = (first + i) % words;
    if (i > 0) left = word(at);
    if (left != 0) return at * 64 + std::countr_zero(left);
  }
  return kNone;
}

/// An output that is free offers itself to one of the inputs that have something for it; an input
/// remembers the offer that comes first in its turn.
void PacketNetwork::offer(uint32_t link) {
  Port& port = ports_[link];
  const Switch& node = switches_[port.at_switch];
  for (uint32_t i = 0; i < lanes_; ++i) {
    const uint32_t lane = (port.lane_turn + i) % lanes_;
    const uint32_t output = channel_of(link, lane);
    const uint64_t* idle =
        idle_bits_.data() + node.first_idle + static_cast<size_t>(lane) * node.input_words;
    const uint32_t input = choose(requests(output), idle, node.input_words, port.input_turn);
    if (input == kNone || !has_room(output)) continue;
    const uint32_t from = channel_of(node.input_link[input], lane);
    const auto distance = [&](uint32_t to) {
      return (ports_[to].output + node.outputs - channels_[from].accept_turn) % node.outputs;
    };
    if (grant_[from] == kNone) {
      grant_[from] = link;
      granted_inputs_.push_back(from);
    } else if (distance(link) < distance(grant_[from])) {
      grant_[from] = link;
    }
    return;
  }
}

/// Matches free outputs with inputs that are not being read, until no pair is left.
void PacketNetwork::match() {
  for (bool first = true;; first = false) {
    granted_inputs_.clear();
    for (const uint32_t link : open_) offer(link);
    if (granted_inputs_.empty()) return;
    for (const uint32_t from : granted_inputs_) {
      const uint32_t link = grant_[from], lane = from % lanes_;
      grant_[from] = kNone;
      Port& port = ports_[link];
      Channel& channel = channels_[from];
      const Switch& node = switches_[port.at_switch];
      const size_t row = static_cast<size_t>(lane) * node.inputs + channel.input;
      List& queue = virtual_queues_[node.first_list + row * node.outputs + port.output];
      const uint32_t packet = remove_first(queue);
      const uint64_t input_bit = uint64_t{1} << channel.input % 64;
      if (queue.head == kNone) {
        filled_bits_[node.first_filled + row * node.output_words + port.output / 64] &=
            ~(uint64_t{1} << port.output % 64);
        requests(channel_of(link, lane))[channel.input / 64] &= ~input_bit;
      }
      idle_bits_[node.first_idle + static_cast<size_t>(lane) * node.input_words +
                 channel.input / 64] &= ~input_bit;
      if (first) {  // iSLIP: later rounds leave the turns alone, or nobody would be safe of his
        port.input_turn = channel.input + 1;
        channel.accept_turn = (port.output + 1) % node.outputs;
      }
      port.lane_turn = lane + 1;
      ++packets_[packet].link;
      transmit(link, packet, from);
    }
    std::erase_if(open_, [&](uint32_t link) { return ports_[link].busy; });
  }
}

}  // namespace ibcoll::sim
