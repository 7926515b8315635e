#pragma once
/// Connections on first use. Each pair of ranks has one reliable queue pair on either side; its
/// number travels in a datagram. As either side makes its one queue pair when it first wants the
/// connection or first hears of it, it doesn't matter who began, nor whether both did. Datagrams
/// get lost: who wants the connection repeats its own until it knows that the peer is ready.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"
#include "verbs/queue_pair.h"

namespace ibcoll::verbs {

/// What every rank tells all others once, at start.
struct RankAddress {
  PortAddress port;
  uint32_t datagram_number = 0;
};

/// One peer's connection.
struct Link {
  ReliableQueuePair qp;
  uint32_t own_psn = 0;
  bool own_ready = false;   ///< this side accepts packets
  bool peer_ready = false;  ///< the peer is known to
  bool wanted = false;      ///< this rank has something to send
  int64_t repeat_at_ns = 0;
  int64_t repeat_after_ns = 0;
  int64_t unreachable_since_ns = 0;  ///< 0: it is not
  AddressHandle address;             ///< for datagrams; made when first needed

  bool usable() const { return own_ready && peer_ready; }
};

class Connector {
 public:
  /// Queue pairs made here complete to `sends` and `receives`. `job` is equal on all ranks and
  /// differs between jobs: datagrams of others are ignored.
  struct Queues {
    ibv_cq* sends = nullptr;
    ibv_cq* receives = nullptr;
    ibv_srq* shared_receives = nullptr;
  };
  static Result<std::unique_ptr<Connector>> create(const Device& device, const RetryOptions& retry,
                                                   ibv_comp_channel* channel);

  uint32_t datagram_number() const { return datagrams_->qp_num; }
  ibv_cq* completions() const { return completions_.get(); }
  /// To be called once all addresses are known.
  void start(Rank me, uint64_t job, std::vector<RankAddress> addresses, const Queues& queues);

  /// The link to a peer; null where there is none yet.
  Link* link(Rank peer) const { return links_[static_cast<size_t>(peer)].get(); }
  /// Asks for a connection; it is usable some calls of poll() later.
  Status want(Rank peer, int64_t now_ns);
  /// The peer behind a queue pair number; -1: not one of ours.
  Rank peer_of(uint32_t queue_pair) const;
  size_t links() const { return by_number_.size(); }

  /// Handles datagrams.
  Status poll(int64_t now_ns);
  /// Repeats what was not answered. To be called every few milliseconds.
  Status repeat(int64_t now_ns);

 private:
  struct Hello;
  Connector() = default;
  Result<Link*> open(Rank peer);
  Status find_way(Rank peer, Link& link);
  Status bear(Link& link, const Error& error, int64_t now_ns) const;
  Status handle(const Hello& hello, int64_t now_ns);
  Status say_hello(Rank peer, Link& link, int64_t now_ns);
  Status post_receive(uint64_t slot);

  const Device* device_ = nullptr;
  RetryOptions retry_;
  Rank me_ = -1;
  uint64_t job_ = 0;
  std::vector<RankAddress> addresses_;
  Queues queues_;
  std::vector<std::byte> memory_;
  MemoryHandle region_;
  CompletionQueueHandle completions_;
  QueuePairHandle datagrams_;
  std::vector<uint32_t> free_sends_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Rank> unanswered_;
  std::unordered_map<uint32_t, Rank> by_number_;
};

}  // namespace ibcoll::verbs
