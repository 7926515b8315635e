#pragma once
/// Connections on first use: each pair of ranks has one reliable queue pair on either side. How the
/// two learn of each other is what implementations differ in.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/sparse_objects.h"
#include "engine/schedule/shape.h"
#include "engine/transport/connection_slots.h"
#include "verbs/address_book.h"
#include "verbs/queue_pair.h"
#include "verbs/responder.h"
#include "verbs/send_completions.h"
#include "verbs/way_finder.h"

namespace ibcoll::verbs {

/// One peer's connection, or what is left of it when it has been closed.
struct Connection {
  ReliableQueuePair qp;
  uint32_t own_psn = 0;
  uint32_t closed = 0;      ///< how many there were before: both ends count them
  bool own_ready = false;   ///< this side accepts packets
  bool peer_ready = false;  ///< the peer is known to
  bool wanted = false;      ///< this rank has something to send
  bool broken = false;      ///< nothing can be sent any more
  bool lost = false;        ///< the peer has died, or left
  int64_t repeat_at_ns = 0;
  int64_t repeat_after_ns = 0;
  int64_t unreachable_since_ns = 0;  ///< 0: it is not
  WayFinder::Found way;              ///< the last one that was used
  int64_t asked_at_ns = 0;           ///< CmConnector: when it last sent a request
  uint32_t heard = 0;                ///< of Responder, when it was last looked at
  int questions = 0;                 ///< asked since then
  int answers = 0;                   ///< to the last questions, in a row
  int64_t question_at_ns = 0;

  bool usable() const { return own_ready && peer_ready && !broken; }
};

/// How connections are made (IBCOLL_CONNECT).
enum class ConnectBy {
  kDatagrams,  ///< queue pair numbers travel in datagrams of our own
  kRdmacm,     ///< librdmacm, from IP address to IP address
};

class Connector {
 public:
  /// Completions of datagrams go to `channel`, too. `responder` has to outlive what is made.
  static Result<std::unique_ptr<Connector>> create(ConnectBy by, const Device& device,
                                                   Responder& responder, const RetryOptions& retry,
                                                   ibv_comp_channel* channel);
  /// What it keeps of the ranks of the job to find connections, and of one that it has a connection
  /// to.
  static constexpr size_t table_bytes(size_t ranks, size_t connections) {
    return SparseObjects<Connection>::table_bytes(ranks, connections);
  }
  static constexpr size_t bytes_each_connection() {
    return sizeof(Connection) + sizeof(std::pair<const uint32_t, Rank>) + 2 * sizeof(void*);
  }
  virtual ~Connector() = default;
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Enters where peers find this rank.
  virtual void introduce(RankAddress& address) const = 0;
  /// The queue its own completions go to; null: none.
  virtual ibv_cq* completions() const { return nullptr; }
  /// Becomes readable for one poll(2) or epoll_wait(2) after each batch of events; -1: never.
  virtual int events() const { return -1; }

  /// Queue pairs made here complete to `sends` and `receives`.
  struct Queues {
    SendCompletions* sends = nullptr;
    ibv_cq* receives = nullptr;
    ibv_srq* shared_receives = nullptr;
  };
  /// To be called once all addresses are known. `job` is equal on all ranks and differs between
  /// jobs: what comes from others is ignored. `slots`: those of this rank, where connections are
  /// limited; else null.
  void start(Rank me, uint64_t job, AddressBook addresses, const Queues& queues,
             ConnectionSlots* slots);

  /// The connection to a peer; null where there is none yet.
  Connection* connection(Rank peer) const { return connections_.find(static_cast<size_t>(peer)); }
  /// The peer behind a queue pair number; -1: not one of ours.
  Rank peer_of(uint32_t queue_pair) const;

  /// Asks for a connection; it is usable some calls of poll() later. Where connections are limited
  /// and this rank has no slot for it, the peer is asked to offer one.
  virtual Status want(Rank peer, int64_t now_ns) = 0;
  /// Where connections are limited: takes the peer's offer, for which this rank has a slot now.
  virtual Status accept(Rank peer, int64_t now_ns) = 0;
  /// Where connections are limited: gives the queue pair up. Nothing is under way any more in
  /// either direction.
  virtual void close(Rank peer);
  /// The peer has died: its queue pair refuses packets from now on, and what comes of the peer is
  /// ignored. To be called once.
  virtual Status lose(Rank peer);
  /// The peer has left: nothing is sent to it any more, and nobody waits for a connection to it.
  /// May be said again.
  virtual void part(Rank peer);
  /// To be called every few milliseconds while a peer is to close its end: an error where there is
  /// nobody any more.
  Status look_for(Rank peer, int64_t now_ns) { return look_after(peer, entry(peer), now_ns); }
  /// Destroys queue pairs that were given up a while ago.
  void bury(int64_t now_ns);
  /// Handles what peers sent.
  virtual Status poll(int64_t now_ns) = 0;
  /// Repeats what was not answered. To be called every few milliseconds. A peer that is late is
  /// waited for; one that nothing comes from, not even from its responder, is an error.
  virtual Status repeat(int64_t now_ns) = 0;

  /// The peer that the last error of code kPeerFailed was about, with which no connection is made.
  Rank unreached() const { return unreached_; }

  /// Asks a peer's responder, to find out by Responder::heard() whether the peer lives. False:
  /// there is no room now.
  Result<bool> question(Rank peer, int64_t now_ns);

 protected:
  Connector(const Device& device, Responder& responder, const RetryOptions& retry)
      : device_(device), responder_(responder), retry_(retry) {}
  /// To be called first.
  Status prepare();
  /// What is known of the connection to a peer, which may have no queue pair.
  Connection& entry(Rank peer);
  /// The connection to a peer, with a queue pair; made where there is none.
  Result<Connection*> open(Rank peer);
  /// The way to a peer, which the connection keeps; null: it is being looked for.
  /// ErrorCode::kPeerFailed: there is none now.
  Result<const Way*> way(Rank peer, Connection& connection, int64_t now_ns);
  /// Of the lookups, see WayFinder.
  int lookup_events() const { return ways_->events(); }
  /// No error yet where a way may still be found (ErrorCode::kPeerFailed, not for too long): what
  /// was to be sent counts as lost.
  Status bear(Rank peer, Connection& connection, const Error& error, int64_t now_ns);
  /// To be called while a peer has not agreed to a connection: an error where there is nobody.
  Status look_after(Rank peer, Connection& connection, int64_t now_ns);
  /// "rxe1:1 (::ffff:10.0.0.1) to rank 3 on rxe2:1 (::ffff:10.0.0.2)".
  std::string both_ends(Rank peer) const;
  const AddressBook& addresses() const { return addresses_; }
  bool is_rank(int32_t number) const {
    return number >= 0 && number < static_cast<Rank>(addresses_.ranks());
  }
  /// When the next attempt is due, later each time; ranks that began together don't repeat
  /// together.
  void put_off(Connection& connection, int64_t now_ns) const;
  static constexpr int64_t kFirstRepeatNs = 10'000'000;

  const Device& device_;
  Responder& responder_;
  const RetryOptions retry_;
  Rank me_ = -1;
  uint64_t job_ = 0;
  ConnectionSlots* slots_ = nullptr;  ///< null: connections are not limited

 private:
  Rank unreached_ = -1;
  std::unique_ptr<WayFinder> ways_;
  AddressBook addresses_;
  Queues queues_;
  SparseObjects<Connection> connections_;  ///< by rank
  /// A device may acknowledge the last message of a queue pair after it is known to have come, and
  /// one that was broken off still completes what was posted to it.
  struct GivenUp {
    ReliableQueuePair qp;
    int64_t at_ns;
    bool completes;
    uint32_t looked_at = 0;
  };
  void give_up(Connection& connection, bool completes);
  void bury_all();
  std::vector<GivenUp> given_up_;
  std::unordered_map<uint32_t, Rank> by_number_;
};

}  // namespace ibcoll::verbs
