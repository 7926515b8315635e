#pragma once
/// The network as flows: messages under way share every link max-min fairly (progressive filling,
/// Bertsekas and Gallager 1992, section 6.5.2), as if packets were infinitely small. With
/// Queues::kFifo the ports by which they enter switches carry less, by an estimate of head-of-line
/// blocking; with the other queues nothing blocks. Latencies are added at the end; control messages
/// take no bandwidth.
///
/// When something starts or ends, only flows that share links with it, directly or through others,
/// get new rates.

#include "studies/simulate/network.h"

namespace ibcoll::sim {

class FlowNetwork final : public Network {
 public:
  FlowNetwork(const Routes& routes, const NetworkOptions& options, uint32_t senders);

  void send(const NetworkMessage& message, uint32_t tag) override;
  const std::vector<uint64_t>& link_bytes() const override { return link_bytes_; }

 private:
  static constexpr uint8_t kFinished = kFirstOwnKind;
  static constexpr uint8_t kBalance = kFinished + 1;

  struct Flow {
    uint32_t route = 0, tag = 0, queue = 0;
    uint32_t next = kNone;  // in its queue
    uint32_t stamp = 0;     // of the balancing that has seen it
    bool active = false, fixed = false;
    uint64_t data_bytes = 0;
    uint64_t bytes = 0;  // with headers
    double left = 0;     // bytes at `since`
    double rate = 0;     // bytes a picosecond
    Time since = 0;
    Time due = 0;                  // an event for an earlier time is stale
    std::vector<uint32_t> places;  // of the flow in the lists of its links
  };
  struct OnLink {
    uint32_t flow, hop;
  };
  struct LinkState {
    std::vector<OnLink> flows;
    double capacity = 0, used = 0;  // bytes a picosecond
    // Of one balancing:
    double spare = 0;      // not yet given away
    double wanted = 0;     // as an output: by how many inputs, in parts of what they have
    double chosen = 0;     // as an output: part of one input's flows
    uint32_t unfixed = 0;  // flows that have no rate yet
    uint32_t stamp = 0;
    bool dirty = false;
  };
  struct Queue {
    uint32_t head = kNone, tail = kNone;
  };
  struct Share {
    double share;
    uint32_t link;
  };

  void handle(const Event& event) override;
  void settle() override;
  void start(uint32_t flow);
  void finish(uint32_t flow);
  void set_rate(Flow& flow, uint32_t index, double rate);
  void touch(uint32_t link);
  void balance();
  void collect();
  void set_capacities();
  Time extra_time(const Flow& flow) const;

  const NetworkOptions options_;
  const Time interval_;
  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<uint32_t> free_;
  std::vector<Queue> queues_;  // by sender, or by first link
  std::vector<uint64_t> link_bytes_;
  std::vector<uint32_t> dirty_, fresh_;
  Time balanced_ = INT64_MIN / 2;
  bool balance_due_ = false;
  uint32_t stamp_ = 0;

  // Of one balancing.
  std::vector<uint32_t> members_, edge_;
  std::vector<Share> heap_;
};

}  // namespace ibcoll::sim
