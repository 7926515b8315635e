#pragma once
/// What the executor needs of whatever moves bytes. `NetworkTransport` is one-sided: verbs
/// and the software loopback implement it. `LocalTransport` moves data between the ranks of one
/// server, where the receiver pulls: it names the place the data goes to, so nothing has to be
/// exposed beforehand, and a message costs one cache line written and one read.
///
/// All calls of the data side are non-blocking, allocate nothing and take no lock. Peers are ranks
/// of the job.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/strided_copy.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/schedule/ranks.h"
#include "engine/sharing/bell.h"
#include "engine/transport/short_call.h"

namespace ibcoll {

/// Memory of this rank that a network may read and write.
struct MemoryKey {
  uint64_t local = 0;   ///< for this rank's own posts (lkey)
  uint64_t remote = 0;  ///< what pack_key() makes of it, where that fits eight bytes (rkey)
  /// Tells a registration that may be handed out again from all others of this rank; 0: it is not
  /// kept.
  uint64_t registration = 0;
};

/// A place in a peer's memory, with the key that unpack_key() gave for it.
struct RemoteAddress {
  uint64_t address = 0;
  uint64_t key = 0;
};

/// A part of what one put writes.
struct PutSegment {
  const std::byte* source = nullptr;
  size_t bytes = 0;
};

/// Something a peer sent: a signal (an immediate) or a mail (a short message that needs no prior
/// arrangement).
struct Arrival {
  enum class Kind : uint8_t { kSignal, kMail } kind = Kind::kSignal;
  Rank from = -1;
  uint32_t immediate = 0;
  std::span<const std::byte> mail;  ///< valid until the next poll
};

/// What went through a transport since it was created; between servers only.
struct TransportCounters {
  uint64_t data_messages = 0;  ///< puts of at least one byte, and mails with data
  uint64_t tokens = 0;         ///< signals, other mails and puts of no bytes
  uint64_t data_bytes = 0;
  uint64_t gathers = 0;      ///< of the data messages: puts of several segments
  uint64_t queue_pairs = 0;  ///< peers connected; loopback: those that something was sent to
  uint64_t connections = 0;  ///< open now, whichever of the two ranks has sent something
  uint64_t registrations = 0;

  /// Counts a message that carries so many bytes of data.
  void count(size_t bytes) {
    if (bytes > 0) {
      ++data_messages;
      data_bytes += bytes;
    } else {
      ++tokens;
    }
  }
};

/// A counter that only one kind of transport has.
struct NamedCounter {
  std::string_view name;
  uint64_t value = 0;
};

/// One-sided network between servers. To one peer, everything is delivered in the order it was
/// posted: a signal or mail says that all earlier puts to that peer are in its memory. Between
/// peers there is no order.
class NetworkTransport {
 public:
  static constexpr uint64_t kNoSignal = ~uint64_t{0};
  static constexpr size_t kMaxMailBytes = 4096;
  /// What mails with data may have, the same on all ranks: no less.
  virtual size_t max_data_mail_bytes() const { return kMaxMailBytes; }
  virtual ~NetworkTransport() = default;
  virtual const char* name() const = 0;

  /// Makes [base, base + bytes) known to the network. kUnsupported where the memory can't be used
  /// as it is.
  virtual Result<MemoryKey> register_memory(void* base, size_t bytes) = 0;
  /// The same for memory whose registration the caller can do without: nothing is given up for it.
  virtual Result<MemoryKey> register_spare(void* base, size_t bytes) {
    return register_memory(base, bytes);
  }
  virtual void deregister_memory(const MemoryKey& key) = 0;
  static constexpr size_t kMaxKeyBytes = 1024;
  /// Writes what peers need in order to put into registered memory, the same for all of them and at
  /// most kMaxKeyBytes; gives its length. It travels once a pair of ranks and registration.
  virtual size_t pack_key(const MemoryKey& key, std::span<std::byte> packed) const;
  /// The key for puts to `peer` from what pack_key() wrote there. May allocate.
  virtual Result<uint64_t> unpack_key(Rank peer, std::span<const std::byte> packed);
  /// All puts with that key have arrived, though their completions may not have been taken. Keys
  /// that are not released when the transport closes are its own to free.
  virtual void release_key(Rank, uint64_t) {}

  /// Writes `bytes` bytes from `source` to the peer, then (unless kNoSignal) delivers the 32-bit
  /// `immediate` there. False: no room now, poll and try again. The source may be overwritten once
  /// completed(peer) reaches posted(peer) as it is after this call.
  virtual bool put(Rank peer, const void* source, const MemoryKey& source_key, RemoteAddress target,
                   size_t bytes, uint64_t immediate) = 0;
  /// How many segments one put may have; 1: this network gathers nothing.
  virtual size_t max_put_segments() const { return 1; }
  /// Puts the bytes of segments, which all lie in the memory of `source_key`, one after the other:
  /// one message. At least one segment, at most max_put_segments(), and none is empty.
  virtual bool put_segments(Rank peer, std::span<const PutSegment> segments,
                            const MemoryKey& source_key, RemoteAddress target, uint64_t immediate) {
    return put(peer, segments[0].source, source_key, target, segments[0].bytes, immediate);
  }
  /// Delivers an immediate without data (a zero-byte write).
  virtual bool signal(Rank peer, uint32_t immediate) = 0;
  /// Of mails that belong to no call: they count neither as data nor as tokens.
  static constexpr size_t kUncounted = SIZE_MAX;
  /// Delivers up to kMaxMailBytes, or with data up to max_data_mail_bytes(), of which `data_bytes`
  /// count as a data message. The sender keeps at most two mails a peer that the peer's poll has
  /// not taken: false if it would be more.
  virtual bool mail(Rank peer, std::span<const std::byte> bytes, size_t data_bytes) = 0;
  bool mail(Rank peer, std::span<const std::byte> bytes) { return mail(peer, bytes, 0); }

  /// Progress: hands out what arrived, up to arrivals.size() of them; returns how many.
  virtual size_t poll(std::span<Arrival> arrivals) = 0;
  virtual uint64_t posted(Rank peer) const = 0;
  virtual uint64_t completed(Rank peer) = 0;
  /// The job is over. Once this returns no memory of this rank is read any more for what it has
  /// posted, unless it is for a peer that does not answer. Nothing is posted afterwards.
  virtual void withdraw() {}
  /// Hands posted work to the network (rings the doorbells). Called once after each batch.
  virtual void flush() {}
  /// What is posted from now on belongs to that call, by a number that no other call of this rank
  /// has; 0: to none.
  void post_for(uint64_t call) { posts_for_ = call; }
  /// A mark behind all that was posted so far, for held_by().
  virtual uint64_t mark() { return 0; }
  /// A peer that what was posted for a call has not left for; none: all of it goes on by itself,
  /// however long this rank stays away, who owes nothing to a call that has ended. So does what
  /// was posted for no call, before the mark and to `members`: it may be what brings them into the
  /// call. What other calls posted does not count: their peers may come to them after this one.
  /// Networks in hardware need nobody.
  virtual std::optional<Rank> held_by(uint64_t, uint64_t, RankSpan) { return std::nullopt; }
  /// For waits that sleep: from now on the bell is rung when something arrives or completes. Poll
  /// once more after this call, then sleep. False: this network can't do that, sleep shortly.
  virtual bool wake_on_arrival(Bell&) { return false; }

  /// Whether peers may wait for this rank to poll although it is in no call: each connection that
  /// is closed for another takes both ends.
  virtual bool needs_polls() const { return false; }
  /// How many connections each rank of the job may have at a time, the same on all ranks; 0: any
  /// number.
  virtual uint32_t max_connections() const { return 0; }

  /// Whether a job may go on after deaths: lose() takes a peer out.
  virtual bool survives_deaths() const { return false; }
  /// That rank has died. From now on nothing that it has sent is handed out or written to memory of
  /// this rank, and whatever is posted to it is taken and complete at once, as is all that was.
  /// Its failures are none any more. May be said again.
  virtual void lose(Rank) {}
  /// That rank has left the job in order, without waiting for others, as ranks do after a death.
  /// What it has sent is handed out as before; the rest is as for lose(). May be said again.
  virtual void part(Rank) {}
  /// Whether something has gone wrong that may come of a peer's death: somebody has to find out
  /// before failure() says that.
  bool has_suspects() const { return has_suspects_; }

  /// The first bad completion: which peer, and why. Where it may come of the peer's death, in a
  /// while: others may know of that.
  virtual std::optional<Failure> failure() const = 0;
  virtual const TransportCounters& counters() const = 0;
  virtual std::vector<NamedCounter> details() const { return {}; }
  /// Waits until everything posted to peers that live is done, so long at most: this rank leaves
  /// without waiting for others, as after a death.
  virtual void drain(int64_t) {}
  /// Collective: waits until everything posted is done, then takes the connections down.
  virtual Status close() = 0;

 protected:
  uint64_t posts_for_ = 0;
  bool has_suspects_ = false;
};

/// Which call a message belongs to; both sides must mean the same.
struct MessageKey {
  uint64_t group = 0;     ///< the communicator's key, equal on its members
  uint32_t sequence = 0;  ///< the how-many-th call on it
  uint32_t program = 0;   ///< hash of the program: checked, not matched
  bool token = false;     ///< tokens and data of one call are kept apart
  /// Of an offer: the sender waits for no data of its server in this call, so that it can go on
  /// where the message is copied.
  bool one_way = false;
};

/// What became of an offer.
enum class Offer : uint8_t {
  kNoRoom,    ///< nothing happened: call again after some progress
  kDone,      ///< the source may be overwritten
  kPending,   ///< the source may be overwritten once completed(peer, ticket)
  kNoMemory,  ///< none is left for messages to that peer: trouble() says
};

/// What became of a pull.
enum class Pull : uint8_t {
  kNotYet,    ///< nothing there
  kPartial,   ///< part of it was copied: call again
  kDone,      ///< all of it lies in the target
  kMismatch,  ///< there, but of another length or another program: trouble() says
  kFailed,    ///< the sender's memory can't be read (it died): trouble() says
};

/// What a pull does with the data that comes instead of writing it.
struct Combining {
  /// target <- target and source, combined: whole elements of `element_bytes`. Null, or why it
  /// could not be done.
  const char* (*combine)(void* target, const void* source, size_t bytes, void* context);
  void* context;
  size_t element_bytes;
  const char* failure = nullptr;  ///< what combine() gave
};

/// Memory of this rank whose blocks need not be contiguous.
struct StridedMemory {
  std::byte* base = nullptr;
  const StridedBlock* blocks = nullptr;
  /// What holds all runs of all blocks.
  const std::byte* reach = nullptr;
  size_t reach_bytes = 0;
  bool short_runs = false;  ///< of some blocks: a reader would pay more for each than for a copy
};

/// Shared memory inside a server. Messages of one sender and one key stay in order.
class LocalTransport {
 public:
  virtual ~LocalTransport() = default;

  /// Offers `bytes` bytes at `source` to a local peer. `ticket` is set where the result is
  /// kPending.
  virtual Offer offer(Rank peer, const MessageKey& key, const void* source, size_t bytes,
                      uint32_t& ticket) = 0;
  /// Offers the first `bytes` bytes of a view of that memory. The blocks must stay as long as the
  /// source.
  virtual Offer offer_strided(Rank peer, const MessageKey& key, const StridedMemory& memory,
                              const StridedView& source, size_t bytes, uint32_t& ticket) = 0;
  /// True once; a ticket that has ended must not be asked for again.
  virtual bool completed(Rank peer, uint32_t ticket) = 0;
  /// Takes the next message of `peer` with that key into `target`; `bytes` is the length agreed on.
  /// Copies a limited piece a call; `progress` (0 at first) keeps the place. `streaming`: the copy
  /// should bypass the caches.
  virtual Pull pull(Rank peer, const MessageKey& key, void* target, size_t bytes, bool streaming,
                    size_t& progress) = 0;
  /// The same into the first `bytes` bytes of a view.
  virtual Pull pull_strided(Rank peer, const MessageKey& key, const StridedView& target,
                            size_t bytes, size_t& progress) = 0;
  /// The same as pull(), but combines the message with what lies in the target. Where that fails
  /// nothing more comes of it: kNotYet, and `how` says why.
  virtual Pull pull_combined(Rank peer, const MessageKey& key, void* target, size_t bytes,
                             Combining& how, size_t& progress) = 0;
  /// Carries out operations of a call in their order, as far as messages have come and there is
  /// room for those that are sent; gives how many. The first one that is left is for the functions
  /// above, which also say what is wrong with a message. `key.token` is ignored.
  virtual size_t carry_out(const MessageKey&, const ShortCall&) { return 0; }
  /// Takes back what was offered with that ticket: true once the peer will not read the source any
  /// more, whether it has read it or not. False: it may; to be asked again. Only of a group that is
  /// over: the peer drops the message when it learns that. The ticket has ended when this is true.
  virtual bool retract(Rank peer, uint32_t ticket) = 0;
  /// Drops all messages of a group, which is over, that have come in from local peers.
  virtual void drop(uint64_t group) = 0;
  /// What went wrong last.
  virtual const std::string& trouble() const = 0;

  /// A message that came before, or long after, somebody asked for it.
  struct Stray {
    Rank peer;
    MessageKey key;
  };
  /// Those that were set aside since they were last taken from here.
  bool has_strays() const { return !strays_.empty(); }
  std::vector<Stray> take_strays() { return std::exchange(strays_, {}); }
  /// All that nobody has asked for so far, where they can be seen. Not for the data path.
  virtual std::vector<Stray> untaken() { return {}; }

  /// A short message outside any call's order (a forwarded exposure). False: no room now.
  virtual bool offer_mail(Rank peer, std::span<const std::byte> mail) = 0;
  /// The next mail of any local peer; empty: none. Valid until the next call.
  virtual std::span<const std::byte> take_mail() = 0;

  /// Progress of messages too long to be handed over at once, and wake-up of peers that sleep. True
  /// if something moved.
  virtual bool poll() = 0;
  /// Makes room where ranks wait for each other's: what peers that are refused have sent is set
  /// aside, as far as memory for that goes. To be called when nothing has moved for a while. True
  /// if something moved.
  virtual bool relieve() { return false; }

  /// Gates: `slot` is what open_gates gave for the group. This rank has passed `gates` gates of
  /// call `sequence`.
  virtual Result<uint32_t> open_gates(uint64_t group, std::span<const Rank> local_members) = 0;
  /// `over`: members that have not opened them may never do.
  virtual void close_gates(uint32_t slot, bool over) = 0;
  virtual void gate_signal(uint32_t slot, uint32_t sequence, uint32_t gates) = 0;
  /// True when that local rank has passed at least `gates` gates of call `sequence`, or is past the
  /// call.
  virtual bool gate_passed(Rank peer, uint32_t slot, uint32_t sequence, uint32_t gates) const = 0;
  /// Calls of one group that may be open at a time where programs use gates.
  static constexpr uint32_t kGateBanks = 16;

 protected:
  std::vector<Stray> strays_;
};

}  // namespace ibcoll
