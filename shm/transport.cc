#include "shm/transport.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/base/copy.h"
#include "engine/base/pages.h"

namespace ibcoll::shm {
namespace {

/// Four messages a pair: two collectives in flight never wait for room, and a pair's lines stay in
/// the cache.
constexpr uint32_t kSlots = 4;
constexpr RingLayout kMailRing{
    4, 64 * ((NetworkTransport::kMaxMailBytes + sizeof(SlotHeader) + 63) / 64)};
/// What one pull copies at most before others get their turn.
constexpr size_t kPieceBytes = 128 * 1024;
/// The same where a piece costs a system call.
constexpr size_t kReadBytes = 1024 * 1024;
/// Marks the tickets of messages sent in chunks: they are complete when the last chunk is in the
/// ring.
constexpr uint32_t kChunked = 0x8000'0000;
constexpr uint64_t kProbeWord = 0x6962636f6c6c2121;

}  // namespace

Result<std::unique_ptr<Transport>> Transport::create(Bootstrap& bootstrap, const Shape& shape,
                                                     std::span<Bell> bells,
                                                     const Options& options) {
  std::unique_ptr<Transport> self(new Transport);
  const Rank rank = bootstrap.rank();
  const int server = shape.server_of(rank);
  self->shape_ = &shape;
  self->options_ = options;
  self->me_ = shape.local_of(rank);
  self->size_ = shape.server_size(server);
  self->bells_ = bells;
  prepare_bells();
  self->shares_address_space_ = bootstrap.shares_address_space();

  const size_t eager = std::max(options.eager_bytes, options.eager_shared_bytes);
  if (eager >= (1u << 24) - 64) {
    return fail(ErrorCode::kInvalidArgument,
                "messages of {} bytes can't go through the ring: the limit is {}", eager,
                (1u << 24) - 65);
  }
  const RingLayout ring{kSlots, static_cast<uint32_t>(round_up(eager + sizeof(SlotHeader), 64))};
  const size_t n = self->size_;
  const size_t rings_at = Gates::bytes(n);
  const size_t pair_bytes = round_up(ring.bytes() + kMailRing.bytes(), 64);
  const size_t heaps_at = round_up(rings_at + n * n * pair_bytes, 4096);
  const size_t heap_bytes = round_up(options.heap_bytes, 4096);

  // Servers may differ in size, and a region's size must be the same within its colour only.
  IBCOLL_ASSIGN(self->region_, SharedRegion::create(bootstrap, server, heaps_at + n * heap_bytes,
                                                    "ibcoll-server"));
  std::byte* base = self->region_.data();
  // Rings and gates are touched as they are used; reserving them all would cost megabytes for every
  // pair that never speaks. A core dump holds those that this rank reads.
  self->region_.include_in_dumps(0, rings_at);
  self->region_.include_in_dumps(rings_at + self->me_ * n * pair_bytes, n * pair_bytes);
  self->gates_ = Gates(base, self->me_);
  self->heap_ =
      std::make_unique<Heap>(self->region_, heaps_at + self->me_ * heap_bytes, heap_bytes);
  if (self->me_ == 0) self->gates_.prepare();
  self->peers_.resize(n);
  self->dirty_.reserve(n);
  for (size_t peer = 0; peer < n; ++peer) {
    // A receiver's rings lie side by side: it polls them together.
    std::byte* out = base + rings_at + (peer * n + self->me_) * pair_bytes;
    std::byte* in = base + rings_at + (self->me_ * n + peer) * pair_bytes;
    Peer& p = self->peers_[peer];
    p.rank = shape.rank_at(server, static_cast<int>(peer));
    p.outgoing = Ring(out, ring);
    p.incoming = Ring(in, ring);
    p.outgoing_mail = Ring(out + ring.bytes(), kMailRing);
    p.incoming_mail = Ring(in + ring.bytes(), kMailRing);
  }
  IBCOLL_TRY(self->probe_private_reads(bootstrap));
  return self;
}

Transport::~Transport() = default;

/// Finds out which peers can read this rank's private memory: each reads a word of every other's,
/// and all exchange what they found.
Status Transport::probe_private_reads(Bootstrap& bootstrap) {
  struct Probe {
    uint64_t address;
    int32_t pid;
  };
  const uint64_t word = kProbeWord;
  const Probe mine{reinterpret_cast<uint64_t>(&word), getpid()};
  std::vector<Probe> all(bootstrap.size());
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof(mine), all.data()));
  std::vector<uint8_t> readable(bootstrap.size(), 0);
  for (Peer& peer : peers_) {
    peer.pid = all[peer.rank].pid;
    uint64_t value = 0;
    const iovec to{&value, sizeof(value)};
    const iovec from{reinterpret_cast<void*>(all[peer.rank].address), sizeof(value)};
    readable[peer.rank] =
        shares_address_space_ ||
        (options_.allow_process_vm &&
         process_vm_readv(peer.pid, &to, 1, &from, 1, 0) == sizeof(value) && value == kProbeWord);
  }
  std::vector<uint8_t> table(size_t{static_cast<size_t>(bootstrap.size())} * bootstrap.size());
  IBCOLL_TRY(bootstrap.allgather(readable.data(), readable.size(), table.data()));
  const Rank me = peers_[me_].rank;
  all_read_private_ = true;
  for (Peer& peer : peers_) {
    peer.reads_me = table[static_cast<size_t>(peer.rank) * bootstrap.size() + me] != 0;
    all_read_private_ = all_read_private_ && peer.reads_me;
  }
  return {};
}

void Transport::touched(Peer& peer) {
  if (peer.dirty) return;
  peer.dirty = true;
  dirty_.push_back(static_cast<int>(&peer - peers_.data()));
}

void Transport::publish(Peer& peer, const MessageKey& key, MessageKind kind, size_t payload_bytes) {
  SlotHeader& header = peer.outgoing.back();
  header.sequence = key.sequence;
  header.group = key.group;
  header.program = key.program;
  header.length = static_cast<uint32_t>(payload_bytes);
  header.kind = static_cast<uint32_t>(kind);
  header.token = key.token;
  peer.outgoing.publish();
  touched(peer);
}

Offer Transport::offer(Rank rank, const MessageKey& key, const void* source, size_t bytes,
                       uint32_t& ticket) {
  Peer& peer = peers_[local(rank)];
  if (peer.unsent.bytes != 0 || !peer.outgoing.has_room()) return Offer::kNoRoom;
  const bool shared = in_region(source, bytes);
  if (bytes <= (shared ? options_.eager_shared_bytes : options_.eager_bytes)) {
    if (bytes != 0) std::memcpy(peer.outgoing.back().payload(), source, bytes);
    publish(peer, key, MessageKind::kEager, bytes);
    return Offer::kDone;
  }
  if (shared || peer.reads_me) {
    // The ticket before last of the same place must have ended.
    const uint32_t next = (peer.tickets + 1) & ~kChunked;
    if (!completed(rank, (next - RingControl::kTickets) & ~kChunked)) return Offer::kNoRoom;
    peer.tickets = ticket = next;
    const DirectSource direct{
        shared ? static_cast<uint64_t>(static_cast<const std::byte*>(source) - region_.data())
               : reinterpret_cast<uint64_t>(source),
        bytes, ticket, shared};
    std::memcpy(peer.outgoing.back().payload(), &direct, sizeof(direct));
    publish(peer, key, MessageKind::kDirect, sizeof(direct));
    return Offer::kPending;
  }
  peer.unsent = {key, static_cast<const std::byte*>(source), bytes, 0, peer.unsent.count + 1};
  ticket = kChunked | peer.unsent.count;
  ++unsent_;
  send_chunks(peer);
  return Offer::kPending;
}

bool Transport::completed(Rank rank, uint32_t ticket) const {
  const Peer& peer = peers_[local(rank)];
  if ((ticket & kChunked) != 0) {
    return peer.unsent.bytes == 0 || (peer.unsent.count & ~kChunked) != (ticket & ~kChunked);
  }
  // Tickets of one place end in order, so a later one there means that this one has ended.
  const uint32_t done = peer.outgoing.done(ticket).load(std::memory_order_acquire);
  return static_cast<int32_t>((done - ticket) << 1) >= 0;  // 31-bit numbers
}

/// Sends as much of the unsent message as the ring has room for.
bool Transport::send_chunks(Peer& peer) {
  bool moved = false;
  Unsent& unsent = peer.unsent;
  while (unsent.bytes != 0 && peer.outgoing.has_room()) {
    const size_t room =
        std::max(options_.eager_bytes, options_.eager_shared_bytes) - sizeof(uint64_t);
    const size_t piece = std::min(room, unsent.bytes - unsent.sent);
    std::byte* payload = peer.outgoing.back().payload();
    const uint64_t total = unsent.bytes;
    std::memcpy(payload, &total, sizeof(total));
    std::memcpy(payload + sizeof(total), unsent.source + unsent.sent, piece);
    publish(peer, unsent.key, MessageKind::kChunk, sizeof(total) + piece);
    unsent.sent += piece;
    moved = true;
    if (unsent.sent == unsent.bytes) {
      unsent.bytes = 0;
      --unsent_;
    }
  }
  return moved;
}

Pull Transport::refuse(const Peer& peer, const std::string& why) {
  mismatch_ = fmt::format("rank {} {}", peer.rank, why);
  return Pull::kMismatch;
}

/// Takes from one message, which lies in its slot or in the stash. `finished`: the message (chunk)
/// is used up.
Pull Transport::take(Peer& peer, const SlotHeader& header, const MessageKey& key, std::byte* target,
                     size_t bytes, bool streaming, size_t& progress, bool& finished) {
  finished = false;
  if (header.program != key.program) [[unlikely]] {
    return refuse(peer, "runs another algorithm, collective or option in this call");
  }
  const std::byte* payload = header.payload();
  const auto kind = static_cast<MessageKind>(header.kind);
  if (kind == MessageKind::kEager) {
    if (header.length != bytes) [[unlikely]] {
      return refuse(peer, fmt::format("sends {} bytes where {} are expected",
                                      uint32_t{header.length}, bytes));
    }
    if (bytes != 0) std::memcpy(target, payload, bytes);
    finished = true;
    return Pull::kDone;
  }
  DirectSource source{};
  std::memcpy(&source, payload, kind == MessageKind::kDirect ? sizeof(source) : 0);
  uint64_t total = source.bytes;
  if (kind == MessageKind::kChunk) std::memcpy(&total, payload, sizeof(total));
  if (total != bytes) [[unlikely]] {
    return refuse(peer, fmt::format("sends {} bytes where {} are expected", total, bytes));
  }
  size_t piece = std::min(kPieceBytes, bytes - progress);
  if (kind == MessageKind::kChunk) {
    piece = header.length - sizeof(uint64_t);
    std::memcpy(target + progress, payload + sizeof(uint64_t), piece);
    finished = true;
  } else if (source.in_region || shares_address_space_) {
    const std::byte* from = source.in_region ? region_.data() + source.address
                                             : reinterpret_cast<const std::byte*>(source.address);
    if (streaming) {
      copy_streaming(target + progress, from + progress, piece);
    } else {
      copy_plain(target + progress, from + progress, piece);
    }
  } else {
    piece = std::min(kReadBytes, bytes - progress);
    const iovec to{target + progress, piece};
    const iovec from{reinterpret_cast<void*>(source.address + progress), piece};
    const ssize_t copied = process_vm_readv(peer.pid, &to, 1, &from, 1, 0);
    if (copied <= 0) [[unlikely]] {
      mismatch_ = fmt::format("can't read {} bytes of rank {} (pid {}): {}", piece, peer.rank,
                              peer.pid, copied < 0 ? std::strerror(errno) : "nothing was copied");
      return Pull::kFailed;
    }
    piece = static_cast<size_t>(copied);
  }
  progress += piece;
  if (progress < bytes) return Pull::kPartial;
  progress = 0;
  finished = true;
  if (kind == MessageKind::kDirect) {
    peer.incoming.done(source.ticket).store(source.ticket, std::memory_order_release);
    touched(peer);
  }
  return Pull::kDone;
}

void Transport::stash_front(Peer& peer) {
  const SlotHeader& front = peer.incoming.front();
  Stashed stashed;
  const auto* begin = reinterpret_cast<const std::byte*>(&front);
  stashed.bytes.assign(begin, begin + sizeof(SlotHeader) + front.length);
  peer.stash.push_back(std::move(stashed));
}

Pull Transport::take_stashed(Peer& peer, const MessageKey& key, std::byte* target, size_t bytes,
                             bool streaming, size_t& progress, bool& found) {
  found = false;
  for (auto it = peer.stash.begin(); it != peer.stash.end();) {
    const SlotHeader& header = *it->header();
    if (header.group != key.group || header.sequence != key.sequence || header.token != key.token) {
      ++it;
      continue;
    }
    found = true;
    bool finished = false;
    const Pull result = take(peer, header, key, target, bytes, streaming, progress, finished);
    if (finished) it = peer.stash.erase(it);
    if (result != Pull::kPartial || !finished) return result;
  }
  return Pull::kPartial;
}

Pull Transport::pull(Rank rank, const MessageKey& key, void* target, size_t bytes, bool streaming,
                     size_t& progress) {
  Peer& peer = peers_[local(rank)];
  auto* to = static_cast<std::byte*>(target);
  const size_t before = progress;
  if (!peer.stash.empty()) [[unlikely]] {
    bool found = false;
    const Pull result = take_stashed(peer, key, to, bytes, streaming, progress, found);
    if (found && (result != Pull::kPartial || progress - before >= kPieceBytes)) return result;
  }
  while (peer.incoming.has_message()) {
    const SlotHeader& front = peer.incoming.front();
    if (front.group != key.group || front.sequence != key.sequence || front.token != key.token)
        [[unlikely]] {
      // It belongs to a call that comes later here: put aside, so that calls of different groups
      // can overtake each other.
      stash_front(peer);
      peer.incoming.release();
      touched(peer);
      continue;
    }
    bool finished = false;
    const Pull result = take(peer, front, key, to, bytes, streaming, progress, finished);
    if (finished) {
      peer.incoming.release();
      touched(peer);
    }
    if (result != Pull::kPartial || !finished || progress - before >= kPieceBytes) return result;
  }
  return progress != before ? Pull::kPartial : Pull::kNotYet;
}

bool Transport::offer_mail(Rank rank, std::span<const std::byte> mail) {
  Peer& peer = peers_[local(rank)];
  if (!peer.outgoing_mail.has_room()) return false;
  SlotHeader& header = peer.outgoing_mail.back();
  std::memcpy(header.payload(), mail.data(), mail.size());
  header.length = static_cast<uint32_t>(mail.size());
  peer.outgoing_mail.publish();
  touched(peer);
  return true;
}

std::span<const std::byte> Transport::take_mail() {
  // The mail handed out last is released now: its span was promised to hold until this call.
  if (Peer& last = peers_[next_mail_]; last.mail_held) {
    last.incoming_mail.release();
    last.mail_held = false;
    touched(last);
  }
  for (int tries = 0; tries < size_; ++tries) {
    next_mail_ = next_mail_ + 1 == size_ ? 0 : next_mail_ + 1;
    Peer& peer = peers_[next_mail_];
    if (!peer.incoming_mail.has_message()) continue;
    peer.mail_held = true;
    const SlotHeader& header = peer.incoming_mail.front();
    return {header.payload(), header.length};
  }
  return {};
}

bool Transport::poll() {
  bool moved = false;
  if (unsent_ != 0) [[unlikely]] {
    for (Peer& peer : peers_) moved |= peer.unsent.bytes != 0 && send_chunks(peer);
  }
  if (!dirty_.empty()) {
    bell_fence();
    for (const int index : dirty_) {
      Peer& peer = peers_[index];
      peer.dirty = false;
      ring_if_sleeping(bells_[peer.rank]);
    }
    dirty_.clear();
  }
  return moved;
}

Result<uint32_t> Transport::open_gates(uint64_t group, std::span<const Rank> local_members) {
  std::vector<int> members;
  for (const Rank rank : local_members) members.push_back(local(rank));
  return gates_.open(group, members);
}

void Transport::gate_signal(uint32_t slot, uint32_t sequence, uint32_t gates) {
  gates_.signal(slot, sequence, gates);
  for (Peer& peer : peers_) {
    if (peer.rank != peers_[me_].rank) touched(peer);
  }
}

}  // namespace ibcoll::shm
