#pragma once
/// Messages between the ranks of one server through a shared region: see LocalTransport for the
/// contract.

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/copy.h"
#include "engine/base/memory_item.h"
#include "engine/base/message_store.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/costs/ring_limits.h"
#include "engine/sharing/bell.h"
#include "engine/sharing/test_hooks.h"
#include "engine/transport/transport.h"
#include "shm/gates.h"
#include "shm/heap.h"
#include "shm/learned_ways.h"
#include "shm/mail_queue.h"
#include "shm/receipts.h"
#include "shm/ring.h"

namespace ibcoll::shm {

struct Options {
  size_t heap_bytes =
      0;  ///< capacity of each rank's heap (address space; memory is reserved as it is allocated)
  /// Of messages that are copied through the ring, as far as it holds them. Those of the server's
  /// first rank apply to all.
  RingLimits limits;
  bool allow_process_vm =
      true;  ///< read private memory of peers with process_vm_readv where the kernel allows it
  /// Learn from what messages take how they go best; else the limits decide.
  bool learn = false;
};

/// What a rank has to do with the others of its server, as far as memory goes.
struct LocalLoad {
  size_t ranks = 1;          ///< of the server
  size_t partners = 0;       ///< of them that it exchanges messages with
  uint64_t longest = 0;      ///< of these messages
  bool gates = false;        ///< its programs pass gates
  uint64_t local_mails = 0;  ///< that may lie in its queue at a time
};

/// One rank's end of the server's shared region. Layout of the region: what ranks tell each other
/// at the start, gates, mail queues, rings of all ordered pairs, heaps.
class Transport final : public LocalTransport {
 public:
  /// What the ranks of a server share. Heaps are as large as the smallest that one of them asks
  /// for. The limits need not be known yet.
  static SharedRegion::Request region(Rank rank, const Shape& shape, const Options& options);
  /// Collective over all ranks of the job. `bells`: of the ranks of the machine, which outlive it;
  /// `region`: what has been made as region() asks for it. The first one's limits apply to all of a
  /// server.
  static Result<std::unique_ptr<Transport>> create(Bootstrap& bootstrap, const Shape& shape,
                                                   const Bells& bells, const Options& options,
                                                   SharedRegion region);
  /// The same with a region that it makes.
  static Result<std::unique_ptr<Transport>> create(Bootstrap& bootstrap, const Shape& shape,
                                                   const Bells& bells, const Options& options);
  ~Transport() override;
  /// What it takes of memory on a machine with caches like this one's, once so many calls have been
  /// made that all lines of the rings have been used.
  static MemoryItems memory(const LocalLoad& load);

  /// What this rank has learned of its messages.
  std::vector<LearnedWay> learned() const;

  /// How messages travel here: those of the server's first rank, as far as rings hold them.
  const RingLimits& limits() const { return options_.limits; }

  Heap& heap() { return *heap_; }
  /// True if local peers can read all of [address, address + bytes) directly.
  bool in_region(const void* address, size_t bytes) const {
    const auto* begin = static_cast<const std::byte*>(address);
    return begin >= region_.data() && begin + bytes <= region_.data() + region_.size();
  }

  Offer offer(Rank peer, const MessageKey& key, const void* source, size_t bytes,
              uint32_t& ticket) override;
  Offer offer_strided(Rank peer, const MessageKey& key, const StridedMemory& memory,
                      const StridedView& source, size_t bytes, uint32_t& ticket) override;
  bool completed(Rank peer, uint32_t ticket) override;
  Pull pull(Rank peer, const MessageKey& key, void* target, size_t bytes, bool streaming,
            size_t& progress) override;
  Pull pull_strided(Rank peer, const MessageKey& key, const StridedView& target, size_t bytes,
                    size_t& progress) override;
  Pull pull_combined(Rank peer, const MessageKey& key, void* target, size_t bytes, Combining& how,
                     size_t& progress) override;
  size_t carry_out(const MessageKey& key, const ShortCall& call) override;
  bool retract(Rank peer, uint32_t ticket) override;
  void drop(uint64_t group) override;
  const std::string& trouble() const override { return trouble_; }
  std::vector<Stray> untaken() override;
  bool offer_mail(Rank peer, std::span<const std::byte> mail) override;
  std::span<const std::byte> take_mail() override;
  bool poll() override;
  bool relieve() override;
  /// What is set aside of the messages of one peer: at most so much, and what a ring holds, and
  /// some hundred bytes for each operation that the peer has under way.
  size_t set_aside_bytes(Rank peer) const { return set_aside(peers_[local(peer)]); }
  size_t most_set_aside_bytes() const { return most_set_aside_; }
  Result<uint32_t> open_gates(uint64_t group, std::span<const Rank> local_members) override;
  void close_gates(uint32_t slot, bool over) override { gates_.close(slot, over); }
  void gate_signal(uint32_t slot, uint32_t sequence, uint32_t gates) override;
  bool gate_passed(Rank peer, uint32_t slot, uint32_t sequence, uint32_t gates) const override {
    return gates_.passed(local(peer), slot, sequence, gates);
  }

 private:
  /// A message in chunks that is not all in the ring yet.
  struct Unsent {
    enum class State : uint8_t {
      kPushed,  ///< chunks are sent as there is room: nothing else to that peer meanwhile
      kHeld,    ///< nothing is sent until the peer has asked for it
      kAsked,   ///< for the next `granted` bytes, at least
    };
    MessageKey key;
    StridedView source;
    size_t bytes = 0, sent = 0;
    uint32_t number = 0;  ///< how many such messages had begun with it
    State state = State::kPushed;
    uint32_t receipt = 0;  ///< kHeld: by which it is asked for
    size_t granted = 0;
  };
  /// Marks the tickets of messages in chunks: they are complete when the last chunk is in the ring.
  static constexpr uint32_t kChunked = 0x8000'0000;
  /// Marks the tickets of messages whose receipts are not in the ring.
  static constexpr uint32_t kElsewhere = 0x4000'0000;
  static constexpr uint32_t kTicketMask = kElsewhere - 1;
  /// Who was refused room for a long payload so often has its data read where it lies: the ring may
  /// be full of messages that the peer does not take before it gets this one.
  IBCOLL_LIMIT(uint32_t, kRefusals, 64);
  struct Peer {
    Rank rank = -1;
    Bell* bell = nullptr;
    Ring outgoing, incoming;
    MailQueue mails;             ///< where it takes its mails from
    bool outgoing_made = false;  ///< there is memory behind the ring
    bool incoming_made = false;
    uint32_t tickets = 0;   ///< kDirect messages offered
    uint32_t refusals = 0;  ///< in a row
    MessageStore stash;     ///< messages taken off the ring before their calls were ready for them
    MessageStore answers;   ///< the same of what was asked for
    std::vector<MessageKey> asked;  ///< whose first message in the stash was asked for
    bool sparing = false;           ///< it has been told that much was set aside
    std::vector<Unsent> unsent;     ///< kPushed: the last one at most
    uint32_t chunked = 0;           ///< how many messages in chunks have begun
    bool wants_room = false;        ///< it was refused last
    bool says_full = false;         ///< and the peer has been told
    bool reads_me = false;          ///< it can read my private memory
    bool dirty = false;             ///< it may sleep on something just published
    int pid = 0;
    std::unique_ptr<LearnedWays> learned;  ///< null: nothing is
  };

  /// Where everything lies in the region.
  struct Layout;
  /// What a rank shows the others at the start.
  struct Introduction;

  /// What a peer is to read where it lies.
  struct DirectData {
    uint64_t address;  ///< as DirectSource has it
    size_t bytes;
    bool in_region;
    const StridedView* strided = nullptr;  ///< null: it is contiguous
    bool timed = false;
  };

  /// What a pull is to do.
  struct Wanted {
    const MessageKey& key;
    std::byte* target;
    size_t bytes;
    bool streaming;
    Combining* how;              ///< null: the data is copied
    const StridedView* strided;  ///< what to write to instead of `target`; null: that

    std::byte* in_one_piece() const { return strided == nullptr ? target : nullptr; }
    StridedView view() const { return strided != nullptr ? *strided : StridedView{target}; }
  };
  /// A message in chunks that is combined once it is whole.
  struct Assembly {
    Rank rank;
    MessageKey key;
    std::vector<std::byte> bytes;
  };

  /// What one pull reads of private memory at most, since each piece costs a system call.
  IBCOLL_LIMIT(size_t, kReadBytes, 1024 * 1024);
  /// What one pull copies at most before others get their turn.
  IBCOLL_LIMIT(size_t, kPieceBytes, 128 * 1024);

  Transport() = default;
  int local(Rank rank) const {
    return first_rank_ >= 0 ? rank - first_rank_ : shape_->local_of(rank);
  }
  void publish(Peer& peer, const MessageKey& key, MessageKind kind, size_t payload_bytes,
               bool timed = false);
  bool send_chunks(Peer& peer);
  static Unsent* find_unsent(Peer& peer, uint32_t ticket);
  bool send_on(Peer& peer, Unsent& unsent, bool& moved);
  Offer hold(Peer& peer, Unsent& unsent);
  /// Whether a message to that peer may be sent now, of a ring that is not open; else why not. It
  /// is to be held, as far as it can be, if the ring is not open afterwards either.
  std::optional<Offer> refuse_message(Peer& peer);
  /// Room for a payload; null: there is none.
  std::byte* room_for(Peer& peer, size_t bytes) {
    std::byte* const room =
        refused_for_no_reason(Room::kRing) ? nullptr : peer.outgoing.reserve(bytes);
    if (room == nullptr) [[unlikely]] {
      ++peer.refusals;
      peer.wants_room = true;
      return nullptr;
    }
    peer.refusals = 0;
    if (peer.wants_room) [[unlikely]]
      note_room(peer);
    return room;
  }
  /// The same of what is not copied through the ring for being short: that it finds room says
  /// nothing about those messages.
  std::byte* room_for_other(Peer& peer, size_t bytes) {
    std::byte* const room = peer.outgoing.reserve(bytes);
    if (room == nullptr) [[unlikely]] {
      peer.wants_room = true;
    } else if (peer.wants_room) [[unlikely]] {
      note_room(peer);
    }
    return room;
  }
  void note_room(Peer& peer);
  /// Whether a message that the ring has no room for need not go through it. What goes in a line
  /// alone needs that line any way; and nobody could read, or count chunks of, no bytes.
  static bool may_go_otherwise(const Peer& peer, size_t bytes) {
    return bytes > kInlineBytes && peer.refusals >= kRefusals;
  }
  void set_limits(const RingLimits& limits, size_t ring_bytes);
  void copy_into_ring(std::byte* payload, const void* source, size_t bytes, bool streaming) const {
    if (streaming) [[unlikely]]
      copy_streaming(payload, source, bytes);
    else if (bytes != 0)
      std::memcpy(payload, source, bytes);
  }
  Offer offer_direct(Peer& peer, const MessageKey& key, const DirectData& data, uint32_t& ticket);
  DirectData direct_data(const void* source, size_t bytes, bool shared) const {
    return {shared ? static_cast<uint64_t>(static_cast<const std::byte*>(source) - region_.data())
                   : reinterpret_cast<uint64_t>(source),
            bytes, shared};
  }
  /// Of messages that are copied through the ring.
  size_t longest_eager(const MessageKey& key, bool shared) const {
    return options_.limits.of(shared, key.one_way);
  }
  /// Whether what has been learned says how a message goes.
  bool learns(const Peer& peer, const MessageKey& key, size_t bytes, bool shared) const {
    return bytes > MessageSort::kShortest && peer.learned != nullptr &&
           bytes <= most_.of(shared, key.one_way) && (shared || peer.reads_me);
  }
  Offer offer_as_learned(Peer& peer, const MessageKey& key, const void* source, size_t bytes,
                         bool shared, uint32_t& ticket);
  Offer offer_chunks(Peer& peer, const MessageKey& key, const StridedView& source, size_t bytes,
                     uint32_t& ticket);
  Offer offer_sparingly(Peer& peer, const MessageKey& key, const void* source, size_t bytes,
                        uint32_t& ticket);
  Offer no_memory(const Error& error);
  /// Of an operation of a short call.
  enum class ShortOutcome : uint8_t {
    kDone,
    kNotYet,  ///< the message has not come
    kOther,   ///< it is to be carried out as offer() or pull() do
  };
  ShortOutcome send_short(const MessageKey& key, const ShortCall& call, const ShortOp& op);
  ShortOutcome take_short(const MessageKey& key, const ShortCall& call, const ShortOp& op);
  ShortOutcome carry_out(const MessageKey& key, const ShortCall& call, const ShortOp& op);
  void drop(const RingMessage& message);
  static bool ring_receipt_came_in(const Peer& peer, uint32_t ticket);
  Pull pull(Rank peer, const Wanted& wanted, size_t& progress);
  Pull take(Peer& peer, const RingMessage& message, const Wanted& wanted, size_t& progress,
            bool& finished);
  Pull take_timed(Peer& peer, const RingMessage& message, const Wanted& wanted, size_t& progress,
                  bool& finished);
  std::optional<Pull> take_stashed(Peer& peer, const Wanted& wanted, size_t& progress);
  Pull take_held(Peer& peer, const RingMessage& held, const Wanted& wanted, size_t& progress);
  Pull take_answers(Peer& peer, const Wanted& wanted, size_t& progress);
  void ask(Peer& peer, const RingMessage& held);
  static bool lay_down(const Wanted& wanted, size_t at, const std::byte* source, size_t bytes);
  StridedView view_of(const DirectSource& source, const std::byte* payload) const;
  bool lay_down(const Wanted& wanted, size_t at, const DirectSource& source,
                const StridedView* strided, size_t bytes);
  ssize_t read_private(const Peer& peer, const Wanted& wanted, const StridedView& source,
                       size_t progress);
  ssize_t read_runs(const Peer& peer, const StridedView& target, const StridedView& source,
                    size_t bytes);
  ssize_t read_buffered(const Peer& peer, const StridedView& target, const StridedView& source,
                        size_t bytes);
  bool add_chunk(const Peer& peer, const Wanted& wanted, const std::byte* chunk, size_t bytes,
                 size_t progress);
  ssize_t read_private(const Peer& peer, const Wanted& wanted, uint64_t address, size_t progress);
  void stash_front(Peer& peer);
  void set_aside_all(Peer& peer);
  static size_t set_aside(const Peer& peer) { return peer.stash.bytes() + peer.answers.bytes(); }
  void note_set_aside(Peer& peer);
  void ring_touched();
  Pull refuse(const Peer& peer, const std::string& why);
  Pull refuse_program(const Peer& peer);
  Pull refuse_length(const Peer& peer, uint64_t sent, uint64_t expected);
  static bool is_held(const RingMessage& message) {
    const auto kind = static_cast<MessageKind>(message.header->kind);
    return kind == MessageKind::kHeld || kind == MessageKind::kHeldAgain;
  }
  void touched(Peer& peer);
  Status probe_private_reads(Bootstrap& bootstrap, const Layout& layout);
  Status make_outgoing(Peer& peer);
  bool find_incoming(Peer& peer);
  Shared<uint8_t>& ring_made(int receiver, int sender);
  Shared<uint32_t>& receipt(uint64_t offset) const {
    return *reinterpret_cast<Shared<uint32_t>*>(region_.data() + offset);
  }
  bool is_retracted(const DirectSource& source) const {
    return (receipt(source.receipt).load(std::memory_order_relaxed) & kRetracted) != 0;
  }

  const Shape* shape_ = nullptr;
  Rank first_rank_ = -1;  ///< of the server, if its ranks are consecutive
  Options options_;
  RingLimits most_;            ///< of what is learned to go through rings
  size_t chunk_bytes_ = 0;     ///< of messages in chunks, with what goes before their data
  size_t most_set_aside_ = 0;  ///< of a peer, until what it sends is held
  size_t granted_bytes_ = 0;   ///< of a held message that is asked for: so much at a time
  int me_ = 0;                 ///< local rank
  int size_ = 0;
  bool shares_address_space_ = false;
  SharedRegion region_;
  Gates gates_;
  std::unique_ptr<Heap> heap_;
  std::vector<Peer> peers_;
  std::vector<int> dirty_;
  int unsent_ = 0;
  bool mail_held_ = false;
  bool mails_released_ = false;  ///< since it was looked who may have waited for that
  size_t rings_made_at_ = 0;     ///< in the region: a byte a pair
  std::optional<Receipts> receipts_;
  std::string trouble_;
  std::vector<Assembly> assemblies_;
  std::vector<std::byte> private_piece_;  ///< read of a peer's private memory, to be combined
};

}  // namespace ibcoll::shm
