#pragma once
/// The network packet by packet, lossless: a packet leaves on a link only when the buffer behind it
/// has room (credits, which come back one latency after the room is there).
///
/// - A switch reads a packet out of its input buffer at the speed of the faster of the two links,
///   one at a time an input port and lane; equal links keep the input busy exactly as long as the
///   output. With Queues::kFifo only the oldest packet of a buffer may leave, so that it blocks all
///   behind it while its output is busy: head-of-line blocking.
/// - With Queues::kVirtual outputs offer themselves in turn to inputs that have something for them,
///   and inputs accept in turn (iSLIP, McKeown 1999), as often as pairs are found.
/// - A packet may leave as soon as its head is there (cut through), but never runs dry on the way
///   out: before a faster link it waits.
/// - Arbiters see everything that happens in the same picosecond.

#include "studies/simulate/network.h"
#include "studies/simulate/packet_nic.h"

namespace ibcoll::sim {

class PacketNetwork final : public Network {
 public:
  PacketNetwork(const Routes& routes, const NetworkOptions& options, uint32_t senders);

  void send(const NetworkMessage& message, uint32_t tag) override;
  const std::vector<uint64_t>& link_bytes() const override { return link_bytes_; }

 private:
  static constexpr uint8_t kArrived = kFirstOwnKind;  // a packet may leave from where it is
  static constexpr uint8_t kSent = kArrived + 1;      // a link is free again
  static constexpr uint8_t kRead = kSent + 1;         // an input may be read again
  static constexpr uint8_t kCredit = kRead + 1;       // a link that waited for room may look again
  static constexpr uint8_t kDue = kCredit + 1;  // a host's port may send at its messages' rates

  struct Packet {
    const uint32_t* link = nullptr;  // it is on, or has last been on
    uint32_t tag = 0;                // of its message
    uint32_t bytes = 0;              // on the wire
    uint32_t next = kNone;
    uint8_t lane = 0;
    bool last = false;
  };
  struct List {
    uint32_t head = kNone, tail = kNone;
  };
  /// A link, and the port it leaves from.
  struct Port {
    bool busy = false, dirty = false;
    uint32_t reading = kNone;  // channel whose input is free again when the packet is out
    Time full_time = 0;        // of a packet of full size
    uint32_t lane_turn = 0;
    uint32_t input_turn = 0;  // of the arbiter
    uint32_t at_switch = 0;   // that it leaves from
    uint32_t output = 0;      // number of the port there
  };
  /// A lane of a link, with the buffer behind it.
  struct Channel {
    List waiting;  // FIFO: in the buffer; ideal output queues: to leave on this link
    bool being_read = false;
    bool wants_credit = false;
    bool credit_due = false;                 // an event will say so
    uint32_t sent = 0, freed = 0, back = 0;  // packets: sent, out of the buffer, known to be so
    uint32_t input = 0;                      // number of the port at the switch it leads to
    uint32_t accept_turn = 0;                // virtual output queues: output it accepts next
  };
  struct Switch {
    uint32_t inputs = 0, outputs = 0;
    uint32_t input_words = 0, output_words = 0;
    std::vector<uint32_t> input_link, output_link;
    size_t first_list = 0;  // of virtual output queues: (lane * inputs + input) * outputs + output
    size_t first_filled = 0;  // bits by (lane, input): outputs it has something for
    size_t first_idle = 0;    // bits by lane: inputs that are not being read
  };

  void handle(const Event& event) override;
  void settle() override;

  uint32_t channel_of(uint32_t link, uint32_t lane) const { return link * lanes_ + lane; }
  uint64_t* requests(uint32_t channel) { return request_bits_.data() + request_first_[channel]; }
  uint32_t new_packet();
  void append(List& list, uint32_t packet);
  uint32_t remove_first(List& list);

  void mark(uint32_t link) {
    if (ports_[link].dirty || ports_[link].busy) return;
    ports_[link].dirty = true;
    dirty_.push_back(link);
  }
  void arrive(uint32_t packet);
  void ask(uint32_t channel);
  void input_free(uint32_t channel);
  void give_back(uint32_t channel);
  bool has_room(uint32_t channel);
  void transmit(uint32_t link, uint32_t packet_index, uint32_t from_channel);

  void arbitrate_host(uint32_t link);
  void arbitrate_output_queue(uint32_t link);
  void arbitrate_fifo(uint32_t link);
  void match();
  void offer(uint32_t link);
  uint32_t choose(const uint64_t* bits, const uint64_t* mask, uint32_t words, uint32_t turn);

  const NetworkOptions options_;
  const uint32_t lanes_;
  topology::FastRandom random_;
  std::vector<Port> ports_;        // by link
  std::vector<Channel> channels_;  // by link and lane
  std::vector<Switch> switches_;   // by node; hosts' are empty
  std::vector<uint64_t> link_bytes_;
  std::vector<Packet> packets_;
  uint32_t free_packet_ = kNone;
  PacketNic nic_;

  std::vector<uint32_t> room_;          // packets of the buffer behind a link
  std::vector<size_t> freed_first_;     // by channel: in freed_
  std::vector<Time> freed_;             // rings: when room came back
  std::vector<size_t> request_first_;   // by channel: in request_bits_
  std::vector<uint64_t> request_bits_;  // by channel: inputs whose packets want to leave on it
  std::vector<List> virtual_queues_;
  std::vector<uint64_t> filled_bits_, idle_bits_;
  std::vector<uint32_t> dirty_;

  // Of one matching.
  std::vector<uint32_t> open_, granted_inputs_, grant_;
};

}  // namespace ibcoll::sim
