#include "engine/transport/loopback_wire.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "engine/base/pages.h"

namespace ibcoll::loopback {
namespace {

constexpr size_t kPage = 4096, kLine = 64;
/// Mails are placed as near to the pairs as there is room, so that short ones touch no page of
/// their own. In the worst case the third stands beyond one of full length that stands beyond
/// another.
constexpr size_t kMostMailBytes = 3 * NetworkTransport::kMaxMailBytes;
static_assert(kMostMailBytes <= size_t{1} << 16, "entries name places of mails in 16 bits");

}  // namespace

struct Pair {
  // Written by the sender.
  alignas(kLine) Shared<uint32_t> tail;
  // Written by the receiver.
  alignas(kLine) Shared<uint32_t> head;
  Shared<uint32_t> mails_released;
  Shared<uint32_t> data_released;
  Shared<uint32_t> refused;
  // Set by the sender, cleared by the receiver.
  alignas(kLine) Shared<uint32_t> sender_waits;
  alignas(kLine) uint64_t entries[Wire::kEntries];
};

/// The mails of one direction stand in front of the pairs and those of the other behind them, so
/// that two ranks that exchange short messages touch one page: that of the pairs.
struct Couple {
  /// Of either direction, in the page of the pairs.
  static constexpr size_t kNearMailBytes = (kPage - 2 * sizeof(Pair)) / 2;
  static constexpr size_t kMailAreaBytes =
      kNearMailBytes + round_up(kMostMailBytes - kNearMailBytes, kPage);

  std::byte mails_in_front[kMailAreaBytes];
  Pair pairs[2];
  std::byte mails_behind[kMailAreaBytes];

  /// `offset`: how far from the pairs it begins, whole lines.
  std::byte* mail(bool in_front, size_t offset, size_t bytes) {
    return in_front ? mails_in_front + kMailAreaBytes - round_up(offset + bytes, kLine)
                    : mails_behind + offset;
  }
};
static_assert(2 * sizeof(Pair) <= kPage && Couple::kNearMailBytes % kLine == 0);
static_assert(Couple::kNearMailBytes >= 2 * 640);
static_assert(offsetof(Couple, pairs) % kPage == Couple::kNearMailBytes);
static_assert(sizeof(Couple) % kPage == 0, "couples begin at pages");

/// A key is the generation and the index of its entry: it never comes back.
struct Wire::Registration {
  Shared<uint64_t> key;  ///< 0: free
  Shared<uint64_t> base;
  Shared<uint64_t> bytes;
};

Result<Wire> Wire::create(Bootstrap& bootstrap, std::span<Bell> bells, bool with_data) {
  Wire wire;
  wire.ranks_ = bootstrap.size();
  wire.me_ = bootstrap.rank();
  wire.bells_ = bells;
  const auto ranks = static_cast<size_t>(wire.ranks_);
  size_t end = kPage;
  const auto place = [&end](size_t bytes) {
    const size_t at = end;
    end = round_up(end + bytes, kPage);
    return at;
  };
  wire.pending_stride_ = round_up((ranks + 63) / 64 * sizeof(uint64_t), kLine);
  wire.pending_at_ = place(ranks * wire.pending_stride_);
  wire.registrations_at_ = place(ranks * kMaxRegistrations * sizeof(Registration));
  wire.couples_at_ = place(ranks * wire.couples_in_row() * sizeof(Couple));
  wire.data_at_ = place(with_data ? ranks * ranks * kDataSlots * sizeof(DataSlot) : 0);
  IBCOLL_ASSIGN(wire.region_, SharedRegion::create(bootstrap, 0, end, "network"));
  // Each couple is in the core dump of one of its ranks; a dump would touch every couple of the job
  // otherwise.
  const size_t row = wire.couples_in_row() * sizeof(Couple);
  wire.region_.include_in_dumps(wire.couples_at_ + static_cast<size_t>(wire.me_) * row, row);
  wire.outgoing_.resize(ranks);
  wire.incoming_.resize(ranks);
  return wire;
}

size_t Wire::couple_bytes() { return kPage; }

size_t Wire::long_mail_bytes(size_t mail_bytes) {
  const size_t mails = std::min(kMails * round_up(mail_bytes, kLine), Couple::kMailAreaBytes);
  return round_up(std::max(mails, Couple::kNearMailBytes) - Couple::kNearMailBytes, kPage);
}

/// A rank has a row of couples: with itself, and with the ranks that follow it half way round the
/// job. Those that precede it have it in theirs.
size_t Wire::couples_in_row() const { return static_cast<size_t>(ranks_) / 2 + 1; }

Wire::Direction Wire::direction(Rank receiver, Rank sender) const {
  const int ahead = sender < receiver ? sender - receiver + ranks_ : sender - receiver;
  const bool in_row_of_receiver = 2 * ahead < ranks_ || (2 * ahead == ranks_ && receiver < sender);
  const auto owner = static_cast<size_t>(in_row_of_receiver ? receiver : sender);
  const auto place = static_cast<size_t>(in_row_of_receiver ? ahead : ranks_ - ahead);
  auto* const couples = reinterpret_cast<Couple*>(region_.data() + couples_at_);
  return {couples + owner * couples_in_row() + place, in_row_of_receiver};
}

Pair* Wire::pair(Rank receiver, Rank sender) const {
  const auto [couple, first] = direction(receiver, sender);
  return &couple->pairs[first ? 0 : 1];
}

std::byte* Wire::mail(Rank receiver, Rank sender, size_t offset, size_t bytes) const {
  const auto [couple, first] = direction(receiver, sender);
  return couple->mail(first, offset, bytes);
}

DataSlot* Wire::data_slots(Rank receiver, Rank sender) const {
  const size_t index =
      static_cast<size_t>(receiver) * static_cast<size_t>(ranks_) + static_cast<size_t>(sender);
  return reinterpret_cast<DataSlot*>(region_.data() + data_at_) + index * kDataSlots;
}

Wire::Registration* Wire::registrations(Rank owner) const {
  return reinterpret_cast<Registration*>(region_.data() + registrations_at_) +
         static_cast<size_t>(owner) * kMaxRegistrations;
}

Shared<uint64_t>* Wire::pending(Rank receiver) const {
  return reinterpret_cast<Shared<uint64_t>*>(region_.data() + pending_at_ +
                                             static_cast<size_t>(receiver) * pending_stride_);
}

Shared<uint32_t>& Wire::finished() { return *reinterpret_cast<Shared<uint32_t>*>(region_.data()); }

Wire::Outgoing& Wire::outgoing(Rank peer) {
  Outgoing& out = outgoing_[static_cast<size_t>(peer)];
  if (out.pair == nullptr) out.pair = pair(peer, me_);
  return out;
}

Wire::Incoming& Wire::incoming(Rank peer) {
  Incoming& in = incoming_[static_cast<size_t>(peer)];
  if (in.pair == nullptr) in.pair = pair(me_, peer);
  return in;
}

Result<uint64_t> Wire::register_range(const void* base, size_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(base);
  if (bytes > std::numeric_limits<uint64_t>::max() - address)
    return fail(ErrorCode::kInvalidArgument, "{} bytes at {} do not fit the address space", bytes,
                base);
  size_t index = registrations_used_;
  if (!free_registrations_.empty()) {
    index = free_registrations_.back();
    free_registrations_.pop_back();
  } else if (registrations_used_ == kMaxRegistrations) {
    return fail(ErrorCode::kNoMemory, "the software network takes at most {} registrations a rank",
                kMaxRegistrations);
  } else {
    ++registrations_used_;
  }
  Registration& entry = registrations(me_)[index];
  entry.base.store(address, std::memory_order_release);
  entry.bytes.store(bytes, std::memory_order_release);
  const uint64_t key = next_generation_++ * kMaxRegistrations + index;
  entry.key.store(key, std::memory_order_release);
  return key;
}

void Wire::deregister(uint64_t key) {
  Registration& entry = registrations(me_)[key % kMaxRegistrations];
  uint64_t expected = key;
  if (entry.key.compare_exchange_strong(expected, 0, std::memory_order_acq_rel))
    free_registrations_.push_back(key % kMaxRegistrations);
}

bool Wire::accessible(Rank owner, uint64_t key, uint64_t address, size_t bytes) const {
  const Registration& entry = registrations(owner)[key % kMaxRegistrations];
  if (key == 0 || entry.key.load(std::memory_order_acquire) != key) return false;
  const uint64_t base = entry.base.load(std::memory_order_acquire);
  const uint64_t length = entry.bytes.load(std::memory_order_acquire);
  if (entry.key.load(std::memory_order_acquire) != key) return false;  // replaced meanwhile
  return address >= base && address - base <= length && bytes <= length - (address - base);
}

bool Wire::has_room(Rank peer) {
  Outgoing& out = outgoing(peer);
  if (out.tail - out.head_seen < kEntriesInUse) return true;
  out.head_seen = out.pair->head.load(std::memory_order_acquire);
  if (out.tail - out.head_seen < kEntriesInUse) return true;
  out.pair->sender_waits.store(1, std::memory_order_relaxed);
  shared_fence(std::memory_order_seq_cst);
  out.head_seen = out.pair->head.load(std::memory_order_acquire);
  return out.tail - out.head_seen < kEntriesInUse;
}

bool Wire::push(Rank peer, Entry entry) {
  if (!has_room(peer)) return false;
  Outgoing& out = outgoing(peer);
  out.pair->entries[out.tail % kEntries] = entry.pack();
  out.pair->tail.store(++out.tail, std::memory_order_release);
  pending(peer)[me_ / 64].fetch_or(uint64_t{1} << (me_ % 64), std::memory_order_release);
  ring(bell(peer));
  return true;
}

bool Wire::push_data(Rank peer, RemoteAddress target, Segments segments, size_t begin,
                     size_t bytes) {
  if (!has_room(peer)) return false;
  Outgoing& out = outgoing(peer);
  const auto full = [&out] {
    return out.data - out.pair->data_released.load(std::memory_order_acquire) >= kDataSlots;
  };
  if (full()) {
    out.pair->sender_waits.store(1, std::memory_order_relaxed);
    shared_fence(std::memory_order_seq_cst);
    if (full()) return false;
  }
  DataSlot& slot = data_slots(peer, me_)[out.data++ % kDataSlots];
  slot.address = target.address;
  slot.key = target.key;
  slot.bytes = bytes;
  std::byte* to = slot.data;
  for_each_piece(segments, begin, bytes, [&to](const std::byte* source, size_t piece) {
    std::memcpy(to, source, piece);
    to += piece;
  });
  return push(peer, {Kind::kData, 0});
}

bool Wire::has_room_for_mail(Rank peer) {
  Outgoing& out = outgoing(peer);
  const auto full = [&out] {
    out.mails_released = out.pair->mails_released.load(std::memory_order_acquire);
    return out.mails - out.mails_released >= kMails;
  };
  if (!full()) return true;
  out.pair->sender_waits.store(1, std::memory_order_relaxed);
  shared_fence(std::memory_order_seq_cst);
  return !full();
}

Entry Wire::write_mail(Rank peer, std::span<const std::byte> bytes) {
  Outgoing& out = outgoing(peer);
  uint32_t offset = 0;
  if (out.mails != out.mails_released) {  // one is still there
    const uint32_t other = out.mails_released % kMails;
    if (bytes.size() > out.mail_offset[other])
      offset =
          static_cast<uint32_t>(round_up(out.mail_offset[other] + out.mail_bytes[other], kLine));
  }
  const uint32_t slot = out.mails++ % kMails;
  out.mail_offset[slot] = offset;
  out.mail_bytes[slot] = static_cast<uint32_t>(bytes.size());
  if (!bytes.empty())
    std::memcpy(mail(peer, me_, offset, bytes.size()), bytes.data(), bytes.size());
  return Entry{Kind::kMail, offset | static_cast<uint32_t>(bytes.size()) << 16};
}

bool Wire::refused(Rank peer) const {
  const Pair* pair = outgoing_[static_cast<size_t>(peer)].pair;
  return pair != nullptr && pair->refused.load(std::memory_order_acquire) != 0;
}

void Wire::collect_pending(std::span<uint64_t> ready) {
  Shared<uint64_t>* words = pending(me_);
  for (size_t word = 0; word < ready.size(); ++word) {
    if (words[word].load(std::memory_order_relaxed) != 0)
      ready[word] |= words[word].exchange(0, std::memory_order_acquire);
  }
}

std::optional<Entry> Wire::pop(Rank peer) {
  Incoming& in = incoming(peer);
  if (in.head == in.tail_seen) {
    in.tail_seen = in.pair->tail.load(std::memory_order_acquire);
    if (in.head == in.tail_seen) return std::nullopt;
  }
  return Entry::unpack(in.pair->entries[in.head++ % kEntries]);
}

const DataSlot& Wire::data_of(Rank peer) {
  return data_slots(me_, peer)[incoming(peer).data % kDataSlots];
}

void Wire::end_data(Rank peer, bool placed) {
  Incoming& in = incoming(peer);
  if (!placed) in.pair->refused.store(1, std::memory_order_release);
  in.pair->data_released.store(++in.data, std::memory_order_release);
  wake_sender(peer, *in.pair);
}

std::span<const std::byte> Wire::mail_of(Rank peer, Entry entry) const {
  const size_t bytes = entry.value >> 16;
  return {mail(me_, peer, entry.value & 0xffff, bytes), bytes};
}

void Wire::release_mail(Rank peer) {
  Incoming& in = incoming(peer);
  in.pair->mails_released.store(++in.mails_released, std::memory_order_release);
  wake_sender(peer, *in.pair);
}

void Wire::end_pops(Rank peer) {
  Incoming& in = incoming(peer);
  in.pair->head.store(in.head, std::memory_order_release);
  wake_sender(peer, *in.pair);
}

void Wire::wake_sender(Rank peer, Pair& pair) {
  shared_fence(std::memory_order_seq_cst);
  if (pair.sender_waits.load(std::memory_order_relaxed) == 0) return;
  pair.sender_waits.store(0, std::memory_order_relaxed);
  ring(bell(peer));
}

}  // namespace ibcoll::loopback
