#pragma once
/// Connections wired by datagrams: a queue pair's number travels in one. As either side makes its
/// one queue pair when it first wants the connection or first hears of it, it doesn't matter who
/// began, nor whether both did. Datagrams get lost: who wants the connection repeats its own until
/// it knows that the peer is ready.

#include "verbs/connect.h"
#include "verbs/datagrams.h"

namespace ibcoll::verbs {

class DatagramConnector final : public Connector {
 public:
  static Result<std::unique_ptr<Connector>> create(const Device& device, Responder& responder,
                                                   const RetryOptions& retry,
                                                   ibv_comp_channel* channel);

  void introduce(RankAddress& address) const override {
    address.datagram_number = datagrams_->number();
  }
  ibv_cq* completions() const override { return datagrams_->completions(); }
  Status want(Rank peer, int64_t now_ns) override;
  Status poll(int64_t now_ns) override;
  Status repeat(int64_t now_ns) override;

 private:
  struct Hello;
  using Connector::Connector;
  Status handle(const Hello& hello, int64_t now_ns);
  Status say_hello(Rank peer, Connection& connection, int64_t now_ns);

  std::unique_ptr<Datagrams> datagrams_;
  std::vector<Rank> unanswered_;
};

}  // namespace ibcoll::verbs
