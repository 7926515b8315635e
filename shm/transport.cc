#include "shm/transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/clock.h"

namespace ibcoll::shm {

void Transport::touched(Peer& peer) {
  if (peer.dirty) return;
  peer.dirty = true;
  dirty_.push_back(static_cast<int>(&peer - peers_.data()));
}

void Transport::publish(Peer& peer, const MessageKey& key, MessageKind kind, size_t payload_bytes,
                        bool timed) {
  MessageHeader& header = peer.outgoing.back();
  header.sequence = key.sequence;
  header.group = key.group;
  header.program = key.program;
  header.length = static_cast<uint32_t>(payload_bytes);
  header.kind = static_cast<uint32_t>(kind);
  header.token = key.token;
  header.timed = timed;
  peer.outgoing.publish();
  touched(peer);
}

[[gnu::noinline]] std::optional<Offer> Transport::refuse_message(Peer& peer) {
  if (!peer.outgoing_made) {
    if (const Status made = make_outgoing(peer); !made) return no_memory(made.error());
  }
  if (!peer.unsent.empty() && peer.unsent.back().state == Unsent::State::kPushed) {
    peer.wants_room = true;
    return Offer::kNoRoom;
  }
  peer.outgoing.set_open(peer.outgoing.sparing().load(std::memory_order_relaxed) == 0);
  return std::nullopt;
}

std::vector<LearnedWay> Transport::learned() const {
  std::vector<LearnedWay> all;
  for (size_t sort = 0; sort < MessageSort::kSorts; ++sort) {
    const size_t first = all.size();
    for (const Peer& peer : peers_) {
      if (peer.learned == nullptr) continue;
      const LearnedWays::Finding finding = peer.learned->finding(sort);
      if (finding.ns == decltype(finding.ns){}) continue;
      const auto begin = all.begin() + static_cast<ptrdiff_t>(first);
      auto found = std::find_if(
          begin, all.end(), [&finding](const LearnedWay& one) { return one.way == finding.way; });
      if (found == all.end())
        found = all.insert(found, {MessageSort::at(sort), finding.way, 0, {}});
      ++found->peers;
      for (size_t way = 0; way < kMessageWays; ++way)
        found->ns[way] = std::max(found->ns[way], finding.ns[way]);
    }
  }
  return all;
}

/// A message has found room after others were refused.
[[gnu::noinline]] void Transport::note_room(Peer& peer) {
  peer.wants_room = false;
  if (!peer.says_full) return;
  peer.says_full = false;
  peer.outgoing.full().store(0, std::memory_order_relaxed);
}

Offer Transport::offer(Rank rank, const MessageKey& key, const void* source, size_t bytes,
                       uint32_t& ticket) {
  Peer& peer = peers_[local(rank)];
  if (!peer.outgoing.is_open()) [[unlikely]] {
    if (const std::optional<Offer> refused = refuse_message(peer)) return *refused;
    if (!peer.outgoing.is_open() && !key.token)
      return offer_sparingly(peer, key, source, bytes, ticket);
  }
  const bool shared = in_region(source, bytes);
  if (learns(peer, key, bytes, shared))
    return offer_as_learned(peer, key, source, bytes, shared, ticket);
  const bool readable = shared || peer.reads_me;
  if (bytes <= longest_eager(key, shared)) {
    std::byte* const payload = room_for(peer, bytes);
    if (payload != nullptr) {
      copy_into_ring(payload, source, bytes, bytes >= options_.limits.streaming);
      publish(peer, key, MessageKind::kEager, bytes);
      return Offer::kDone;
    }
    if (!readable || !may_go_otherwise(peer, bytes)) return Offer::kNoRoom;
  }
  if (readable) return offer_direct(peer, key, direct_data(source, bytes, shared), ticket);
  // Chunks are only read of it.
  auto* const memory = static_cast<std::byte*>(const_cast<void*>(source));
  return offer_chunks(peer, key, {memory}, bytes, ticket);
}

/// By what the latest messages of that length took.
Offer Transport::offer_as_learned(Peer& peer, const MessageKey& key, const void* source,
                                  size_t bytes, bool shared, uint32_t& ticket) {
  LearnedWays& learned = *peer.learned;
  if (learned.awaits()) {
    const uint64_t told = peer.outgoing.told().load(std::memory_order_relaxed);
    learned.hear(static_cast<uint32_t>(told >> 32), static_cast<uint32_t>(told));
  }
  const MessageSort sort = MessageSort::of(shared, key.one_way, bytes);
  const MessageWay usual = bytes > longest_eager(key, shared)   ? MessageWay::kRead
                           : bytes >= options_.limits.streaming ? MessageWay::kStreamed
                                                                : MessageWay::kRing;
  LearnedWays::Next next = learned.next(sort, usual);
  const auto number = static_cast<uint32_t>(peer.outgoing.next() + 1);
  if (next.way != MessageWay::kRead) {
    std::byte* const payload = room_for(peer, bytes);
    if (payload != nullptr) {
      const int64_t begin = next.timed ? now_ns() : 0;
      copy_into_ring(payload, source, bytes, next.way == MessageWay::kStreamed);
      const int64_t ns = next.timed ? copy_took(now_ns() - begin) : 0;
      publish(peer, key, MessageKind::kEager, bytes, next.timed);
      learned.sent(sort, usual, next, bytes, number, ns);
      return Offer::kDone;
    }
    if (!may_go_otherwise(peer, bytes)) return Offer::kNoRoom;
    next = {MessageWay::kRead, false};
  }
  DirectData data = direct_data(source, bytes, shared);
  data.timed = next.timed;
  const Offer offered = offer_direct(peer, key, data, ticket);
  if (offered == Offer::kPending) learned.sent(sort, usual, next, bytes, number, 0);
  return offered;
}

Offer Transport::offer_direct(Peer& peer, const MessageKey& key, const DirectData& data,
                              uint32_t& ticket) {
  const StridedView* const strided = data.strided;
  const size_t blocks = strided == nullptr ? 0 : strided->count * sizeof(StridedBlock);
  const size_t length =
      sizeof(DirectSource) + (strided == nullptr ? 0 : sizeof(StridedSource)) + blocks;
  std::byte* const payload = room_for_other(peer, length);
  if (payload == nullptr) return Offer::kNoRoom;
  const uint32_t next = (peer.tickets + 1) & kTicketMask;
  uint64_t receipt = 0;
  if (ring_receipt_came_in(peer, (next - RingControl::kTickets) & kTicketMask)) [[likely]] {
    peer.tickets = ticket = next;
    receipt = static_cast<uint64_t>(
        reinterpret_cast<const std::byte*>(&peer.outgoing.done(ticket)) - region_.data());
  } else {
    // Calls that this peer makes later must not wait for those of which it has read nothing yet.
    const Result<uint32_t> other = receipts_->take();
    if (!other) return no_memory(other.error());
    ticket = kElsewhere | *other;
    receipt = receipts_->offset(*other);
  }
  const DirectSource direct{data.address, data.bytes, receipt, ticket, data.in_region};
  std::memcpy(payload, &direct, sizeof(direct));
  if (strided == nullptr) [[likely]] {
    publish(peer, key, MessageKind::kDirect, length, data.timed);
  } else {
    const StridedSource head{strided->begin, strided->count};
    std::memcpy(payload + sizeof(direct), &head, sizeof(head));
    std::memcpy(payload + sizeof(direct) + sizeof(head), strided->blocks, blocks);
    publish(peer, key, MessageKind::kStrided, length);
  }
  return Offer::kPending;
}

Offer Transport::no_memory(const Error& error) {
  trouble_ = error.message;
  return Offer::kNoMemory;
}

/// Tickets of one place end in order, so a later one there means that this one has ended.
bool Transport::ring_receipt_came_in(const Peer& peer, uint32_t ticket) {
  const uint32_t done = peer.outgoing.done(ticket).load(std::memory_order_acquire);
  return static_cast<int32_t>((done - ticket) << 2) >= 0;  // 30-bit numbers
}

bool Transport::completed(Rank rank, uint32_t ticket) {
  Peer& peer = peers_[local(rank)];
  if ((ticket & kChunked) != 0) return find_unsent(peer, ticket) == nullptr;
  if ((ticket & kElsewhere) != 0) [[unlikely]]
    return receipts_->came_in(ticket & kTicketMask);
  return ring_receipt_came_in(peer, ticket);
}

bool Transport::retract(Rank rank, uint32_t ticket) {
  Peer& peer = peers_[local(rank)];
  if (completed(rank, ticket)) return true;
  if ((ticket & kChunked) != 0) {
    Unsent* const unsent = find_unsent(peer, ticket);
    if (unsent->state == Unsent::State::kHeld) receipts_->retract(unsent->receipt);
    peer.unsent.erase(peer.unsent.begin() + (unsent - peer.unsent.data()));
    --unsent_;
    return true;
  }
  // Loads can't be made to fail: memory that is gone would end the process.
  if (shares_address_space_) return false;
  if ((ticket & kElsewhere) != 0) {
    receipts_->retract(ticket & kTicketMask);
    shared_fence(std::memory_order_seq_cst);  // as below
    return true;
  }
  // The word is this ticket's until the peer has read or dropped the message.
  Shared<uint32_t>& word = peer.outgoing.done(ticket);
  uint32_t before = word.load(std::memory_order_relaxed);
  if (!ring_receipt_came_in(peer, ticket))
    word.compare_exchange_strong(before, before | kRetracted);
  // What the program writes there from now on is not seen without the mark.
  shared_fence(std::memory_order_seq_cst);
  return true;
}

/// Ends a message without reading it.
void Transport::drop(const RingMessage& message) {
  const auto kind = static_cast<MessageKind>(message.header->kind);
  if (kind == MessageKind::kEager || kind == MessageKind::kChunk || kind == MessageKind::kAnswer)
    return;
  DirectSource source{};
  std::memcpy(&source, message.payload, sizeof(source));
  receipt(source.receipt).store(source.ticket, std::memory_order_release);
}

void Transport::drop(uint64_t group) {
  std::erase_if(assemblies_, [group](const Assembly& one) { return one.key.group == group; });
  for (Peer& peer : peers_) {
    // The receipts of those that were asked for may be other messages' by now.
    std::erase_if(peer.asked, [&](const MessageKey& key) {
      if (key.group == group) peer.stash.pop({key.group, key.sequence, key.token});
      return key.group == group;
    });
    for (MessageStore* const kept : {&peer.stash, &peer.answers}) {
      kept->forget(group,
                   [this](std::span<const std::byte> message) { drop(RingMessage::at(message)); });
    }
    note_set_aside(peer);
    if (!peer.incoming_made && !find_incoming(peer)) continue;
    while (peer.incoming.has_message()) {
      if (peer.incoming.front().group == group) {
        drop(peer.incoming.message());
      } else {
        stash_front(peer);
      }
      peer.incoming.release();
      touched(peer);
    }
  }
}

std::vector<LocalTransport::Stray> Transport::untaken() {
  std::vector<Stray> all;
  for (Peer& peer : peers_) {
    const auto add = [&](const MessageHeader& header) {
      all.push_back(
          {peer.rank, {header.group, header.sequence, header.program, header.token != 0}});
    };
    peer.stash.for_each(
        [&add](std::span<const std::byte> message) { add(*RingMessage::at(message).header); });
    if ((peer.incoming_made || find_incoming(peer)) && peer.incoming.has_message())
      add(peer.incoming.front());
  }
  return all;
}

Pull Transport::pull(Rank rank, const MessageKey& key, void* target, size_t bytes, bool streaming,
                     size_t& progress) {
  return pull(rank, {key, static_cast<std::byte*>(target), bytes, streaming, nullptr, nullptr},
              progress);
}

Pull Transport::pull_combined(Rank rank, const MessageKey& key, void* target, size_t bytes,
                              Combining& how, size_t& progress) {
  return pull(rank, {key, static_cast<std::byte*>(target), bytes, false, &how, nullptr}, progress);
}

Pull Transport::pull(Rank rank, const Wanted& wanted, size_t& progress) {
  Peer& peer = peers_[local(rank)];
  const MessageKey& key = wanted.key;
  const size_t before = progress;
  if (!peer.stash.empty()) [[unlikely]] {
    if (const std::optional<Pull> result = take_stashed(peer, wanted, progress)) return *result;
  }
  if (!peer.incoming_made && !find_incoming(peer)) [[unlikely]]
    return Pull::kNotYet;
  while (peer.incoming.has_message()) {
    const MessageHeader& front = peer.incoming.front();
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
    const RingMessage message = peer.incoming.message();
    const Pull result = front.timed == 0 ? take(peer, message, wanted, progress, finished)
                                         : take_timed(peer, message, wanted, progress, finished);
    if (finished) {
      peer.incoming.release();
      touched(peer);
    } else if (result == Pull::kNotYet && is_held(peer.incoming.message())) [[unlikely]] {
      // What it is asked for comes behind what else is in the ring.
      stash_front(peer);
      peer.incoming.release();
      touched(peer);
      const std::optional<Pull> asked = take_stashed(peer, wanted, progress);
      return *asked == Pull::kNotYet && progress != before ? Pull::kPartial : *asked;
    }
    if (result != Pull::kPartial || !finished || progress - before >= kPieceBytes) return result;
  }
  return progress != before ? Pull::kPartial : Pull::kNotYet;
}

bool Transport::offer_mail(Rank rank, std::span<const std::byte> mail) {
  Peer& peer = peers_[local(rank)];
  if (!peer.mails.offer(mail)) return false;
  touched(peer);
  return true;
}

std::span<const std::byte> Transport::take_mail() {
  MailQueue& own = peers_[me_].mails;
  // The mail handed out last is released now: its span was promised to hold until this call.
  if (mail_held_) {
    own.release();
    mails_released_ = true;
  }
  const std::span<const std::byte> mail = own.front();
  mail_held_ = !mail.empty();
  return mail;
}

/// Wakes the peers that may sleep on something just published.
void Transport::ring_touched() {
  bell_fence();
  if (std::exchange(mails_released_, false) && peers_[me_].mails.was_full()) [[unlikely]] {
    for (Peer& peer : peers_) {
      if (&peer != &peers_[me_]) touched(peer);
    }
  }
  for (const int index : dirty_) {
    Peer& peer = peers_[index];
    peer.dirty = false;
    ring_if_sleeping(*peer.bell);
  }
  dirty_.clear();
}

bool Transport::poll() {
  bool moved = false;
  if (unsent_ != 0) [[unlikely]] {
    for (Peer& peer : peers_) moved |= !peer.unsent.empty() && send_chunks(peer);
  }
  if (!dirty_.empty() || mails_released_) ring_touched();
  return moved;
}

Result<uint32_t> Transport::open_gates(uint64_t group, std::span<const Rank> local_members) {
  return gates_.open(group, static_cast<uint32_t>(local_members.size()));
}

void Transport::gate_signal(uint32_t slot, uint32_t sequence, uint32_t gates) {
  gates_.signal(slot, sequence, gates);
  for (Peer& peer : peers_) {
    if (peer.rank != peers_[me_].rank) touched(peer);
  }
}

}  // namespace ibcoll::shm
