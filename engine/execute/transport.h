#pragma once
/// What the executor needs of whatever moves bytes. `NetworkTransport` is one-sided: verbs, UCX and
/// the software loopback implement it. `LocalTransport` moves data between the ranks of one server,
/// where the receiver pulls: it names the place the data goes to, so nothing has to be exposed
/// beforehand, and a message costs one cache line written and one read.
///
/// All calls of the data side are non-blocking, allocate nothing and take no lock. Peers are ranks
/// of the job.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/base/bell.h"
#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

/// Memory of this rank that a network may read and write.
struct MemoryKey {
  uint64_t local = 0;   ///< for this rank's own posts (lkey)
  uint64_t remote = 0;  ///< for peers that write here (rkey)
};

/// A place in a peer's memory, as the peer's exposure gave it.
struct RemoteAddress {
  uint64_t address = 0;
  uint64_t key = 0;
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
  uint64_t data_messages = 0;  ///< puts of at least one byte
  uint64_t tokens = 0;         ///< signals, mails and puts of no bytes
  uint64_t data_bytes = 0;
  uint64_t queue_pairs = 0;  ///< peers connected
  uint64_t registrations = 0;
};

/// One-sided network between servers. To one peer, everything is delivered in the order it was
/// posted: a signal or mail says that all earlier puts to that peer are in its memory. Between
/// peers there is no order.
class NetworkTransport {
 public:
  static constexpr uint64_t kNoSignal = ~uint64_t{0};
  static constexpr size_t kMaxMailBytes = 4096;
  virtual ~NetworkTransport() = default;
  virtual const char* name() const = 0;

  /// Makes [base, base + bytes) known to the network. kUnsupported where the memory can't be used
  /// as it is.
  virtual Result<MemoryKey> register_memory(void* base, size_t bytes) = 0;
  virtual void deregister_memory(const MemoryKey& key) = 0;

  /// Writes `bytes` bytes from `source` to the peer, then (unless kNoSignal) delivers the 32-bit
  /// `immediate` there. False: no room now, poll and try again. The source may be overwritten once
  /// completed(peer) reaches posted(peer) as it is after this call.
  virtual bool put(Rank peer, const void* source, const MemoryKey& source_key, RemoteAddress target,
                   size_t bytes, uint64_t immediate) = 0;
  /// Delivers an immediate without data (a zero-byte write).
  virtual bool signal(Rank peer, uint32_t immediate) = 0;
  /// Delivers up to kMaxMailBytes. The sender keeps at most two mails a peer that the peer's poll
  /// has not taken: false if it would be more.
  virtual bool mail(Rank peer, std::span<const std::byte> bytes) = 0;

  /// Progress: hands out what arrived, up to arrivals.size() of them; returns how many.
  virtual size_t poll(std::span<Arrival> arrivals) = 0;
  virtual uint64_t posted(Rank peer) const = 0;
  virtual uint64_t completed(Rank peer) = 0;
  /// Hands posted work to the network (rings the doorbells). Called once after each batch.
  virtual void flush() {}

  /// The first bad completion: which peer, and why.
  virtual std::optional<Failure> failure() const = 0;
  virtual const TransportCounters& counters() const = 0;
  /// Collective: waits until everything posted is done, then takes the connections down.
  virtual Status close() = 0;
};

/// Which call and which kind of message it is; both sides must mean the same.
struct MessageKey {
  uint32_t group = 0;     ///< the communicator's number, equal on its members
  uint32_t sequence = 0;  ///< the how-many-th call on it
  bool token = false;
  uint32_t program = 0;  ///< the program's hash: checked, not matched
};

/// What became of a pull.
enum class Pull : uint8_t {
  kNotYet,   ///< nothing there
  kPartial,  ///< part of it was copied: call again
  kDone,
  kMismatch,  ///< there, but of another length or another program: see LocalTransport::mismatch()
};

/// Shared memory inside a server. Messages of one (sender, receiver, key.group, key.sequence,
/// key.token) stay in order.
class LocalTransport {
 public:
  virtual ~LocalTransport() = default;

  /// Offers `bytes` bytes at `source` to a local peer. False: no room now. The source may be
  /// overwritten once completed(peer) reaches posted(peer) as it is after this call; short messages
  /// are copied away at once.
  virtual bool offer(Rank peer, const MessageKey& key, const void* source, size_t bytes) = 0;
  /// Takes the next message of `peer` with that key into `target`, which has room for `bytes`, the
  /// length agreed on. Copies a limited piece a call; `progress` (0 at first) keeps the place.
  virtual Pull pull(Rank peer, const MessageKey& key, void* target, size_t bytes,
                    size_t& progress) = 0;
  virtual std::string mismatch() const = 0;
  virtual uint64_t posted(Rank peer) const = 0;
  virtual uint64_t completed(Rank peer) = 0;
  /// Progress of messages that could not be handed over at once. True if something moved.
  virtual bool poll() = 0;

  /// This rank has passed `gates` gates of call `sequence` on group `group`. bank: sequence modulo
  /// kGateBanks.
  virtual void gate_signal(uint32_t group_slot, uint32_t sequence, uint32_t gates) = 0;
  /// True when that local rank has passed at least so many gates of that call (or is past the
  /// call).
  virtual bool gate_passed(Rank peer, uint32_t group_slot, uint32_t sequence,
                           uint32_t gates) const = 0;
};

}  // namespace ibcoll
