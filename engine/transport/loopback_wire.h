#pragma once
/// The shared memory the software network consists of: who has registered what, and for either
/// direction between two ranks a ring of small entries, two mails and (where needed) slots for data
/// on its way.

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/sharing/bell.h"
#include "engine/sharing/shared_access.h"
#include "engine/sharing/test_hooks.h"
#include "engine/transport/transport.h"

namespace ibcoll::loopback {

enum class Kind : uint8_t {
  kSignal = 1,
  kMail = 2,
  kData = 3,
  kWord = 4,  ///< of ConnectionSlots
};

/// The most segments of a put: as many as verbs asks for.
inline constexpr size_t kMaxSegments = 16;
/// The segments of a put.
using Segments = std::span<const PutSegment>;

/// Calls use(source, bytes) for each piece of memory that holds some of the bytes from `begin` on.
template <class Use>
void for_each_piece(Segments segments, size_t begin, size_t bytes, Use&& use) {
  for (const PutSegment& segment : segments) {
    if (begin >= segment.bytes) {
      begin -= segment.bytes;
      continue;
    }
    const size_t piece = std::min(bytes, segment.bytes - begin);
    if (piece == 0) return;
    use(segment.source + begin, piece);
    bytes -= piece;
    begin = 0;
  }
}

/// One message in a ring: a signal's immediate or a mail's place. Data waits in its slot.
struct Entry {
  Kind kind = Kind::kSignal;
  uint32_t value = 0;  ///< immediate; offset (how far from the pairs) | bytes << 16; word

  uint64_t pack() const { return static_cast<uint64_t>(kind) | uint64_t{value} << 8; }
  static Entry unpack(uint64_t bits) {
    return {static_cast<Kind>(bits & 0xff), static_cast<uint32_t>(bits >> 8)};
  }
};

/// A piece of data on its way through shared memory.
struct DataSlot {
  static constexpr size_t kBytes = 8192 - 3 * sizeof(uint64_t);
  uint64_t address;
  uint64_t key;
  uint64_t bytes;
  std::byte data[kBytes];
};

/// What one rank sends another, without mails and data. All zero bytes are a valid, empty pair.
struct Pair;
/// Two ranks' pairs, one for either direction, and their mails.
struct Couple;

/// One rank's end of all its pairs. Pages of couples that are not used are never touched.
class Wire {
 public:
  /// Few enough that two mails of 0.6 KB in each direction fit into the page of the two pairs.
  static constexpr uint32_t kEntries = 64;
  /// As many of them are used.
  IBCOLL_LIMIT(uint32_t, kEntriesInUse, kEntries);
  static constexpr uint32_t kMails = 2;
  static constexpr uint32_t kDataSlots = 4;
  static constexpr size_t kMaxRegistrations = size_t{1} << 20;

  /// Collective. `with_data`: pairs have data slots.
  static Result<Wire> create(Bootstrap& bootstrap, std::span<Bell> bells, bool with_data);

  /// What a rank keeps for each rank of the job.
  static constexpr size_t bytes_each_rank() { return sizeof(Outgoing) + sizeof(Incoming); }
  /// What two ranks touch of their couple whatever they send each other, by short mails as well.
  static size_t couple_bytes();
  /// What they touch beside that if one sends the other mails of so many bytes: whole pages.
  static size_t long_mail_bytes(size_t mail_bytes);

  int ranks() const { return ranks_; }
  Rank me() const { return me_; }

  // What a NIC's translation table does.
  Result<uint64_t> register_range(const void* base, size_t bytes);
  void deregister(uint64_t key);
  /// True if `key` lets anybody touch [address, address + bytes) of `owner`'s memory.
  bool accessible(Rank owner, uint64_t key, uint64_t address, size_t bytes) const;

  // The sending side, one thread at a time. False: no room; the bell rings when there is some.
  bool has_room(Rank peer);
  bool push(Rank peer, Entry entry);
  /// `bytes` bytes of the segments, from byte `begin` on.
  bool push_data(Rank peer, RemoteAddress target, Segments segments, size_t begin, size_t bytes);
  bool has_room_for_mail(Rank peer);
  /// Puts a mail where there is room and the peer will find it; the entry to push for it.
  Entry write_mail(Rank peer, std::span<const std::byte> bytes);
  /// True if the peer could not place data that came through a slot.
  bool refused(Rank peer) const;

  // The receiving side, one thread.
  /// Adds the senders that have sent something to a bitmap of ranks.
  void collect_pending(std::span<uint64_t> ready);
  /// Takes the next entry a peer sent.
  std::optional<Entry> pop(Rank peer);
  /// The data that goes with the kData entry just popped; given back by end_data().
  const DataSlot& data_of(Rank peer);
  void end_data(Rank peer, bool placed);
  std::span<const std::byte> mail_of(Rank peer, Entry entry) const;
  /// Tells the sender that a mail handed out has been read.
  void release_mail(Rank peer);
  /// Tells the sender how far its entries have been taken.
  void end_pops(Rank peer);

  Bell& bell(Rank rank) { return bells_[static_cast<size_t>(rank)]; }
  /// Counts the ranks that have come to the end.
  Shared<uint32_t>& finished();

 private:
  struct Registration;
  struct Outgoing {
    Pair* pair = nullptr;
    uint32_t tail = 0, head_seen = 0;
    uint32_t mails = 0, mails_released = 0;
    uint32_t mail_offset[kMails] = {}, mail_bytes[kMails] = {};
    uint32_t data = 0;
  };
  struct Incoming {
    Pair* pair = nullptr;
    uint32_t head = 0, tail_seen = 0;
    uint32_t mails_released = 0;
    uint32_t data = 0;
  };

  Outgoing& outgoing(Rank peer);
  Incoming& incoming(Rank peer);
  size_t couples_in_row() const;
  struct Direction {
    Couple* couple;
    bool first;
  };
  Direction direction(Rank receiver, Rank sender) const;
  Pair* pair(Rank receiver, Rank sender) const;
  std::byte* mail(Rank receiver, Rank sender, size_t offset, size_t bytes) const;
  DataSlot* data_slots(Rank receiver, Rank sender) const;
  Registration* registrations(Rank owner) const;
  Shared<uint64_t>* pending(Rank receiver) const;
  void wake_sender(Rank peer, Pair& pair);

  SharedRegion region_;
  std::span<Bell> bells_;
  int ranks_ = 0;
  Rank me_ = 0;
  size_t pending_at_ = 0, pending_stride_ = 0, registrations_at_ = 0, couples_at_ = 0, data_at_ = 0;
  uint64_t next_generation_ = 1;
  size_t registrations_used_ = 0;           ///< entries of the table that have ever been in use
  std::vector<size_t> free_registrations_;  ///< those of them that are free
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
};

}  // namespace ibcoll::loopback
