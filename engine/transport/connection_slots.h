#pragma once
/// Which peers a rank has connections to where it may have only so many at a time
/// (IBCOLL_MAX_CONNECTIONS): the one that was used least recently is closed for one that is needed.

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "engine/base/sparse_objects.h"
#include "engine/schedule/ranks.h"
#include "engine/sharing/test_hooks.h"

namespace ibcoll {

/// A connection takes a slot of either rank. The lower rank takes its own first, and holds it while
/// it waits for the other's: ranks wait for higher ranks only, and the highest of them for
/// connections that exist, which both ends can close. So nobody waits in a cycle, however few slots
/// there are. Pairs that wait for a slot get it in the order they began.
///
/// A connection is closed when each end has told the other that all it has sent has arrived:
/// nothing is under way, and neither end sends any more. Whoever asked for a connection keeps it
/// until it has sent something, or for a while, in case it does not want to any more: so each that
/// is made gets somebody on.
///
/// All ranks of a job have slots, or none does; how many may differ. What they tell each other must
/// arrive, in order, and in order with what they send. The transport that owns the slots has to see
/// to it that each rank goes on calling advance(), in a call or not: others wait for its answers.
class ConnectionSlots {
 public:
  /// What the two ranks of a connection tell each other.
  enum class Word : uint8_t {
    kAsk = 1,  ///< the higher rank wants a connection
    kOffer,    ///< the lower rank holds a slot for it
    kAccept,   ///< so does the higher one: it is open
    kClose,    ///< all I have sent has arrived, and I send nothing more
  };

  /// The transport's part.
  class Network {
   public:
    /// False: there is no room now.
    virtual bool tell(Rank peer, Word word) = 0;
    /// Whether something can be sent over a connection that both ranks have a slot for.
    virtual bool is_ready(Rank) { return true; }
    /// Whether all that this rank has sent to the peer, words as well, has arrived.
    virtual bool has_arrived(Rank peer) = 0;
    /// The connection has ended, and its slot is free.
    virtual void ended(Rank) {}
    /// advance() is to be called soon, even by a rank that was about to sleep.
    virtual void wake() = 0;

   protected:
    ~Network() = default;
  };

  /// `most`: slots of this rank, at least one. `network` must outlive it.
  ConnectionSlots(Rank me, int ranks, uint32_t most, Network& network);

  /// Whether this rank may send to the peer. If not, it will be able to some rounds later.
  bool may_send(Rank peer);
  /// Something was sent to the peer, which may_send() allowed.
  void sent(Rank peer) {
    Pair& pair = *pairs_.find(static_cast<size_t>(peer));
    pair.wanted = false;
    touch(pair);
  }
  /// Something but a word came from the peer. False: there is no connection.
  bool received(Rank peer);
  /// A word came from the peer. False, and without effect: it makes no sense now.
  bool heard(Rank peer, Word word);
  /// Whether the connection to the peer has a slot of this rank.
  bool has_slot(Rank peer) const;
  /// Whether the peer has said that it sends nothing more, before the connection ends.
  bool is_closed_by(Rank peer) const;

  /// The peer has died: there is no connection to it, and will be none. May be said again.
  void lose(Rank peer);

  /// A round: answers peers, and makes room for the connections that are waited for. True: another
  /// round is to follow, although nobody may have to say anything first.
  bool advance() { return (!to_do_.empty() || !line_.empty()) && advance_all(); }

  /// Slots that are taken: connections, and those that are about to be.
  uint32_t taken() const { return taken_; }
  /// Connections that were closed.
  uint64_t closed() const { return closed_; }

  /// What is kept for ranks of the job, of which so many were ever connected to this one.
  static constexpr size_t table_bytes(size_t ranks, size_t peers) {
    return SparseObjects<Pair>::table_bytes(ranks, peers) + peers * sizeof(Pair);
  }

 private:
  struct Pair {
    enum class State : uint8_t {
      kClosed,
      kAsked,    ///< higher rank: the other one has been asked, or will be
      kInLine,   ///< for a slot of this rank
      kHeld,     ///< lower rank: it has its slot
      kGranted,  ///< higher rank: it has its slot, too, and will tell
      kOpen,
      kClosing,  ///< nothing is sent any more
    };
    explicit Pair(Rank rank) : peer(rank) {}
    const Rank peer;
    State state = State::kClosed;
    Word untold{};             ///< what is to be told; 0: nothing
    bool wanted = false;       ///< and nothing was sent yet
    bool peer_closes = false;  ///< the peer has told
    bool in_to_do = false;
    bool is_ready = false;           ///< to send; as of `since`
    uint32_t since = 0;              ///< a round
    int64_t since_ns = 0;            ///< the same; or when this rank began to close it
    std::list<Pair*>::iterator use;  ///< in by_use_, while it is open or closing
  };
  using State = Pair::State;

  /// For so many rounds, and at least so long, a connection that is wanted is kept for the first
  /// thing to be sent. Rounds, since a rank may be away from its core; time, since whoever has
  /// found others late looks at this peer only so often.
  IBCOLL_LIMIT(uint32_t, kKeptRounds, 64);
  static constexpr int64_t kKeptNs = 200'000;
  /// A peer that takes longer to close a connection is late: others are asked beside it.
  static constexpr int64_t kLateNs = 5'000'000;

  Pair& pair(Rank peer);
  void touch(Pair& pair) {
    if (by_use_.back() != &pair) by_use_.splice(by_use_.end(), by_use_, pair.use);
  }
  bool is_kept(Pair& pair);
  size_t closing_in_time() const;
  void line_up(Pair& pair);
  void tell_later(Pair& pair, Word word);
  void do_later(Pair& pair);
  void open(Pair& pair);
  void close(Pair& pair);
  void end(Pair& pair);
  bool end_if_over(Pair& pair);
  bool advance_all();
  bool see_to_all();
  bool see_to(Pair& pair);
  bool make_room();

  const Rank me_;
  const uint32_t most_;
  Network& network_;
  SparseObjects<Pair> pairs_;  ///< by rank
  std::list<Pair*> by_use_;    ///< open or closing, the least recently used first
  std::list<Pair*> line_;      ///< for slots
  std::vector<Pair*> to_do_;   ///< there is something to tell, or to answer
  uint32_t taken_ = 0, closing_ = 0;
  uint32_t round_ = 0;
  uint64_t closed_ = 0;
};

/// The lower one of two limits, of which 0 is none.
constexpr uint32_t least_limit(uint32_t a, uint32_t b) {
  return a == 0 || (b != 0 && b < a) ? b : a;
}

}  // namespace ibcoll
