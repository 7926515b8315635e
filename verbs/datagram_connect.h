#pragma once
/// Connections wired by datagrams: a queue pair's number travels in one. As either side makes its
/// one queue pair when it first wants the connection or first hears of it, it doesn't matter who
/// began, nor whether both did. Datagrams get lost: who wants the connection repeats its own until
/// it knows that the peer is ready.

#include "verbs/connect.h"

namespace ibcoll::verbs {

class DatagramConnector final : public Connector {
 public:
  static Result<std::unique_ptr<Connector>> create(const Device& device, const RetryOptions& retry,
                                                   ibv_comp_channel* channel);

  void introduce(RankAddress& address) const override {
    address.datagram_number = datagrams_->qp_num;
  }
  ibv_cq* completions() const override { return completions_.get(); }
  Status want(Rank peer, int64_t now_ns) override;
  Status poll(int64_t now_ns) override;
  Status repeat(int64_t now_ns) override;

 private:
  struct Hello;
  using Connector::Connector;
  Status find_way(Rank peer, Link& link);
  Status handle(const Hello& hello, int64_t now_ns);
  Status say_hello(Rank peer, Link& link, int64_t now_ns);
  Status post_receive(uint64_t slot);
  Status fill();
  void give_up_datagrams();

  std::vector<std::byte> memory_;
  MemoryHandle region_;
  CompletionQueueHandle completions_;
  QueuePairHandle datagrams_;
  std::vector<uint32_t> free_sends_;
  uint32_t posted_ = 0;  ///< sends and receives that have not come back
  bool broken_ = false;  ///< the queue pair is let run empty, to start anew
  std::vector<Rank> unanswered_;
};

}  // namespace ibcoll::verbs
