#pragma once
/// Messages between the ranks of one server through a shared region: see LocalTransport for the
/// contract.

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/bell.h"
#include "engine/base/message_store.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/transport/transport.h"
#include "shm/gates.h"
#include "shm/heap.h"
#include "shm/mail_queue.h"
#include "shm/receipts.h"
#include "shm/ring.h"

namespace ibcoll::shm {

struct Options {
  size_t heap_bytes =
      0;  ///< capacity of each rank's heap (address space; memory is reserved as it is allocated)
  /// The longest messages that are copied through the ring, as far as it holds them. Reading
  /// private memory of another process takes the kernel some time for each page, so copying twice
  /// is faster up to sizes that caches hold.
  size_t eager_private_bytes = size_t{128} << 10;
  /// The same where the sender waits for nothing (MessageKey::one_way) and may have many such
  /// messages to copy, one after the other, which its peers could read all at once.
  size_t eager_private_one_way_bytes = size_t{128} << 10;
  /// The same for memory of the heaps, which peers can read directly.
  size_t eager_shared_bytes = 2048, eager_shared_one_way_bytes = 8192;
  bool allow_process_vm =
      true;  ///< read private memory of peers with process_vm_readv where the kernel allows it
};

/// One rank's end of the server's shared region. Layout of the region: what ranks tell each other
/// at the start, gates, mail queues, rings of all ordered pairs, heaps.
class Transport final : public LocalTransport {
 public:
  /// Collective over all ranks of the job; the ranks of one server get one region. `bells`: one a
  /// rank of the job.
  static Result<std::unique_ptr<Transport>> create(Bootstrap& bootstrap, const Shape& shape,
                                                   std::span<Bell> bells, const Options& options);
  ~Transport() override;

  Heap& heap() { return *heap_; }
  /// True if local peers can read all of [address, address + bytes) directly.
  bool in_region(const void* address, size_t bytes) const {
    const auto* begin = static_cast<const std::byte*>(address);
    return begin >= region_.data() && begin + bytes <= region_.data() + region_.size();
  }
  /// True if this rank's private memory can be read by all its peers with one copy.
  bool reads_private_memory() const { return all_read_private_; }

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
  bool retract(Rank peer, uint32_t ticket) override;
  void drop(uint64_t group) override;
  const std::string& trouble() const override { return trouble_; }
  std::vector<Stray> untaken() override;
  bool offer_mail(Rank peer, std::span<const std::byte> mail) override;
  std::span<const std::byte> take_mail() override;
  bool poll() override;
  Result<uint32_t> open_gates(uint64_t group, std::span<const Rank> local_members) override;
  void close_gates(uint32_t slot, bool over) override { gates_.close(slot, over); }
  void gate_signal(uint32_t slot, uint32_t sequence, uint32_t gates) override;
  bool gate_passed(Rank peer, uint32_t slot, uint32_t sequence, uint32_t gates) const override {
    return gates_.passed(local(peer), slot, sequence, gates);
  }

 private:
  /// A message in chunks that did not fit the ring yet.
  struct Unsent {
    MessageKey key;
    StridedView source;
    size_t bytes = 0, sent = 0;
    uint32_t count = 0;  ///< such messages begun
  };
  /// Who was refused room for a long payload so often has its data read where it lies: the ring may
  /// be full of messages that the peer does not take before it gets this one.
  static constexpr uint32_t kRefusals = 64;
  struct Peer {
    Rank rank = -1;
    Ring outgoing, incoming;
    MailQueue mails;             ///< where it takes its mails from
    bool outgoing_made = false;  ///< there is memory behind the ring
    bool incoming_made = false;
    uint32_t tickets = 0;   ///< kDirect messages offered
    uint32_t refusals = 0;  ///< in a row
    MessageStore stash;     ///< messages taken off the ring before their calls were ready for them
    Unsent unsent;
    bool reads_me = false;  ///< it can read my private memory
    bool dirty = false;     ///< it may sleep on something just published
    int pid = 0;
  };

  /// Where everything lies in the region.
  struct Layout;
  /// What a rank shows the others at the start.
  struct Introduction;

  /// What a pull is to do.
  struct Wanted {
    const MessageKey& key;
    std::byte* target;
    size_t bytes;
    bool streaming;
    Combining* how;              ///< null: the data is copied
    const StridedView* strided;  ///< what to write to instead of `target`; null: that

    StridedView view() const { return strided != nullptr ? *strided : StridedView{target}; }
  };
  /// A message in chunks that is combined once it is whole.
  struct Assembly {
    Rank rank;
    MessageKey key;
    std::vector<std::byte> bytes;
  };

  /// What one pull copies at most before others get their turn.
  static constexpr size_t kPieceBytes = 128 * 1024;

  Transport() = default;
  int local(Rank rank) const { return shape_->local_of(rank); }
  void publish(Peer& peer, const MessageKey& key, MessageKind kind, size_t payload_bytes);
  bool send_chunks(Peer& peer);
  /// Whether there is room for a message to that peer; else why not.
  std::optional<Offer> refuse_message(Peer& peer);
  /// Room for a payload; null: there is none.
  std::byte* room_for(Peer& peer, size_t bytes) {
    std::byte* const room = peer.outgoing.reserve(bytes);
    peer.refusals = room != nullptr ? 0 : peer.refusals + 1;
    return room;
  }
  /// Whether a message that the ring has no room for need not go through it. What goes in a line
  /// alone needs that line any way; and nobody could read, or count chunks of, no bytes.
  static bool may_go_otherwise(const Peer& peer, size_t bytes) {
    return bytes > kInlineBytes && peer.refusals >= kRefusals;
  }
  Offer offer_direct(Peer& peer, const MessageKey& key, uint64_t address, size_t bytes,
                     bool in_region, const StridedView* strided, uint32_t& ticket);
  /// Of messages that are copied through the ring.
  size_t longest_eager(const MessageKey& key, bool shared) const {
    if (shared)
      return key.one_way ? options_.eager_shared_one_way_bytes : options_.eager_shared_bytes;
    return key.one_way ? options_.eager_private_one_way_bytes : options_.eager_private_bytes;
  }
  Offer offer_chunks(Peer& peer, const MessageKey& key, const StridedView& source, size_t bytes,
                     uint32_t& ticket);
  Offer no_memory(const Error& error);
  void drop(const Message& message);
  static bool ring_receipt_came_in(const Peer& peer, uint32_t ticket);
  Pull pull(Rank peer, const Wanted& wanted, size_t& progress);
  Pull take(Peer& peer, const Message& message, const Wanted& wanted, size_t& progress,
            bool& finished);
  std::optional<Pull> take_stashed(Peer& peer, const Wanted& wanted, size_t& progress);
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
  Pull refuse(const Peer& peer, const std::string& why);
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
  Options options_;
  size_t chunk_bytes_ = 0;  ///< of messages in chunks, with what goes before their data
  int me_ = 0;              ///< local rank
  int size_ = 0;
  bool shares_address_space_ = false;
  bool all_read_private_ = false;
  SharedRegion region_;
  Gates gates_;
  std::unique_ptr<Heap> heap_;
  std::vector<Peer> peers_;
  std::vector<int> dirty_;
  int unsent_ = 0;
  bool mail_held_ = false;
  size_t rings_made_at_ = 0;  ///< in the region: a byte a pair
  std::optional<Receipts> receipts_;
  std::string trouble_;
  std::vector<Assembly> assemblies_;
  std::vector<std::byte> private_piece_;  ///< read of a peer's private memory, to be combined
  std::span<Bell> bells_;
};

}  // namespace ibcoll::shm
