#pragma once
/// Connections wired by datagrams: a queue pair's number travels in one. As either side makes its
/// one queue pair when it first wants the connection or first hears of it, it doesn't matter who
/// began, nor whether both did. Datagrams get lost: who wants the connection repeats its own until
/// it knows that the peer is ready.
///
/// Where connections are limited (ConnectionSlots), a datagram without a queue pair asks the lower
/// rank for a connection, that rank's first one is its offer, and the higher rank's answer to it
/// accepts. Each says how many connections the two have had before: a late one is ignored, and an
/// early one waits until this end has closed the last connection.

#include <map>
#include <optional>

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
  int events() const override { return lookup_events(); }
  Status want(Rank peer, int64_t now_ns) override;
  Status accept(Rank peer, int64_t now_ns) override;
  void close(Rank peer) override;
  void part(Rank peer) override;
  Status poll(int64_t now_ns) override;
  Status repeat(int64_t now_ns) override;

 private:
  /// The one message: "my queue pair for you is this one".
  struct Hello {
    uint64_t job = 0;
    int32_t from = -1;
    int32_t to = -1;
    uint32_t queue_pair = 0;  ///< 0: none yet, I ask for yours
    uint32_t psn = 0;
    uint32_t closed = 0;     ///< Connection::closed
    uint8_t ready = 0;       ///< my queue pair knows yours
    uint8_t need_reply = 0;  ///< I don't know yet that yours knows mine
    uint8_t mtu = 0;         ///< of my way to you: either end takes the smaller of both
  };
  /// What waits for the way to a peer.
  struct Held {
    bool say = false;            ///< a message of this rank
    std::optional<Hello> heard;  ///< one of the peer's
  };
  using Connector::Connector;
  bool is_to_wait(const Hello& hello);
  Status handle(const Hello& hello, int64_t now_ns);
  Status say_hello(Rank peer, Connection& connection, int64_t now_ns);
  Status take_up_held(int64_t now_ns);

  std::unique_ptr<Datagrams> datagrams_;
  std::vector<Rank> unanswered_;
  std::map<Rank, Held> held_;
  std::map<Rank, Hello> offers_;  ///< of lower ranks, until this one has slots for them
};

}  // namespace ibcoll::verbs
